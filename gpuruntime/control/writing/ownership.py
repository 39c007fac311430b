"""Whose object is this? The rules by which a write is refused before it is tried."""

from gpuruntime.control.writing.desired_state import OwnershipAnnotations
from gpuruntime.control.writing.write_errors import BeingDeletedError, ForeignObjectError, StaleOwnerError
from gpuruntime.meta.objects import KubeObject, OwnerReference
from gpuruntime.meta.owners import controller_of

__all__ = ["check_ours", "check_writable"]


def check_ours(live: KubeObject, owner: KubeObject | None, marks: OwnershipAnnotations, *, adopt: bool = False) -> None:
    """Pass if the object carries the mark of `owner` and nobody else controls it; without an owner, if nobody does.

    With `adopt`, one without a mark that nobody or the owner controls passes as well. Owner references and labels are
    what anybody may set or lose: the mark alone says who made an object.

    Raises:
        StaleOwnerError: it was made for an earlier object of the owner's group, kind and name, or that controls it.
        ForeignObjectError: it was not made for the owner, or somebody else controls it.
    """
    found, marked = controller_of(live.metadata), marks.owner_uid(live.metadata)
    if owner is None:
        if found is not None:
            raise ForeignObjectError(live, found, owner)
        return
    uid = owner.metadata.uid
    if found is not None and found.uid != uid and not _names(found, owner):
        raise ForeignObjectError(live, found, owner)
    if marked == uid:
        return
    if marked and marks.owner_key(live.metadata, owner.kind) == owner.key:
        raise StaleOwnerError(live, marked, owner)
    if not marked and found is not None and found.uid != uid:
        raise StaleOwnerError(live, found.uid, owner)
    if marked or not adopt:
        raise ForeignObjectError(live, found, owner, mark=marks.owner_uid_name, marked=marked)


def check_writable(live: KubeObject) -> None:
    """Pass unless the object is being deleted.

    Raises:
        BeingDeletedError: it is.
    """
    if live.metadata.deletion_timestamp is not None:
        raise BeingDeletedError(live)


def _names(reference: OwnerReference, owner: KubeObject) -> bool:
    return (reference.group, reference.kind, reference.name) == (owner.kind.group, owner.kind.kind, owner.key.name)
