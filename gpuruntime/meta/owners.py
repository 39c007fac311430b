"""Owner references: who controls an object, and taking control of one."""

from attrs import evolve

from gpuruntime.meta.objects import KubeObject, ObjectMeta, OwnerReference

__all__ = ["AlreadyOwnedError", "OwnerError", "controller_of", "is_controlled_by", "set_controller"]


class OwnerError(ValueError):
    """The owner cannot own this object."""


class AlreadyOwnedError(OwnerError):
    """Another object controls the child already; `owner` says which."""

    def __init__(self, child: ObjectMeta, owner: OwnerReference) -> None:
        self.owner = owner
        super().__init__(
            f"{child.key} is controlled by {owner.kind} {owner.name} (uid {owner.uid}); "
            "delete that owner, or use another name"
        )


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The one owner reference with `controller: true`."""
    return next((reference for reference in meta.owner_references if reference.controller), None)


def is_controlled_by(meta: ObjectMeta, owner: KubeObject) -> bool:
    """Whether the controller is this very object: by UID, so a namesake that was deleted and made again is not."""
    controller = controller_of(meta)
    return controller is not None and bool(controller.uid) and controller.uid == owner.metadata.uid


def set_controller(child: ObjectMeta, owner: KubeObject) -> ObjectMeta:
    """The child's metadata with `owner` as its controller, which also blocks the owner's foreground deletion.

    A reference to the same group, kind and name is replaced, whatever its UID and version: it is the owner's own, or
    one of a namesake that is gone. Its place among the references is kept.

    Raises:
        AlreadyOwnedError: another object is the controller.
        OwnerError: the owner has no UID yet, or is namespaced and the child is not in its namespace; the garbage
            collector deletes children of owners that it cannot find there.
    """
    identity = owner.metadata
    if not identity.uid:
        raise OwnerError(f"{owner.kind} {owner.key} has no uid; create it before it owns {child.key}")
    if owner.kind.namespaced and child.namespace != identity.namespace:
        place = f"in namespace {child.namespace}" if child.namespace else "cluster-scoped"
        raise OwnerError(f"{owner.kind} {owner.key} cannot own {child.key}: expected its own namespace, got {place}")
    controller = controller_of(child)
    if controller is not None and not _names(controller, owner):
        raise AlreadyOwnedError(child, controller)

    reference = OwnerReference(
        api_version=owner.kind.api_version,
        kind=owner.kind.kind,
        name=identity.name,
        uid=identity.uid,
        controller=True,
        block_owner_deletion=True,
    )
    own = next((known for known in child.owner_references if _names(known, owner)), None)
    if own is None:
        return evolve(child, owner_references=(*child.owner_references, reference))
    others = tuple(
        reference if known is own else known
        for known in child.owner_references
        if known is own or not _names(known, owner)
    )
    return child if others == child.owner_references else evolve(child, owner_references=others)


def _names(reference: OwnerReference, owner: KubeObject) -> bool:
    return (reference.group, reference.kind, reference.name) == (
        owner.kind.group,
        owner.kind.kind,
        owner.metadata.name,
    )
