"""Whose object is this? The rules by which a write is refused before it is tried."""

from gpuruntime.control.writing.refusals import BeingDeletedError, ForeignObjectError, StaleOwnerError
from gpuruntime.meta.objects import KubeObject, OwnerReference
from gpuruntime.meta.owners import controller_of

__all__ = ["check_ours", "check_writable"]


def check_ours(live: KubeObject, owner: KubeObject | None, *, adopt: bool = False) -> None:
    """Pass if `owner` controls the object; without an owner, if nobody does; with `adopt`, in both cases.

    Raises:
        StaleOwnerError: an earlier object of the owner's group, kind and name controls it.
        ForeignObjectError: somebody else controls it, or nobody.
    """
    found = controller_of(live.metadata)
    if owner is None:
        if found is not None:
            raise ForeignObjectError(live, found, owner)
    elif found is None:
        if not adopt:
            raise ForeignObjectError(live, found, owner)
    elif found.uid != owner.metadata.uid:
        if _names(found, owner):
            raise StaleOwnerError(live, found, owner)
        raise ForeignObjectError(live, found, owner)


def check_writable(live: KubeObject) -> None:
    """Pass unless the object is being deleted.

    Raises:
        BeingDeletedError: it is.
    """
    if live.metadata.deletion_timestamp is not None:
        raise BeingDeletedError(live)


def _names(reference: OwnerReference, owner: KubeObject) -> bool:
    return (reference.group, reference.kind, reference.name) == (owner.kind.group, owner.kind.kind, owner.key.name)
