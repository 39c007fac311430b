"""Ownership rules: which objects may be written, checked before any request."""

from gpuruntime.control.writing.desired_state import OwnershipAnnotations
from gpuruntime.control.writing.write_errors import BeingDeletedError, ForeignObjectError, StaleOwnerError
from gpuruntime.meta.objects import KubeObject, OwnerReference
from gpuruntime.meta.owners import controller_of

__all__ = ["check_ours", "check_writable"]


def check_ours(
    live: KubeObject, owner: KubeObject | None, annotations: OwnershipAnnotations, *, adopt: bool = False
) -> None:
    """Check that the object was written for `owner` and no other owner controls it.

    Without an owner, check that the object has no controller. With `adopt`, an object without the ownership annotation
    passes, too, if it has no controller or is controlled by `owner`. The annotation decides, because anyone may set or
    remove owner references and labels.

    Raises:
        StaleOwnerError: the object was written for, or is controlled by, an earlier object with the owner's name.
        ForeignObjectError: the object was not written for the owner, or has another controller.
    """
    found, recorded = controller_of(live.metadata), annotations.owner_uid(live.metadata)
    if owner is None:
        if found is not None:
            raise ForeignObjectError(live, found, owner)
        return
    uid = owner.metadata.uid
    if found is not None and found.uid != uid and not _names(found, owner):
        raise ForeignObjectError(live, found, owner)
    if recorded == uid:
        return
    if recorded and annotations.owner_key(live.metadata, owner.kind) == owner.key:
        raise StaleOwnerError(live, recorded, owner)
    if not recorded and found is not None and found.uid != uid:
        raise StaleOwnerError(live, found.uid, owner)
    if recorded or not adopt:
        raise ForeignObjectError(live, found, owner, annotation=annotations.owner_uid_name, recorded=recorded)


def check_writable(live: KubeObject) -> None:
    """Check that the object is not being deleted.

    Raises:
        BeingDeletedError: the object is being deleted.
    """
    if live.metadata.deletion_timestamp is not None:
        raise BeingDeletedError(live)


def _names(reference: OwnerReference, owner: KubeObject) -> bool:
    return (reference.group, reference.kind, reference.name) == (owner.kind.group, owner.kind.kind, owner.key.name)
