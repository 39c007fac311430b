"""Owner references: finding and setting the controller of an object."""

from attrs import evolve

from gpuruntime.meta.objects import KubeObject, ObjectMeta, OwnerReference

__all__ = ["AlreadyOwnedError", "OwnerError", "controller_of", "is_controlled_by", "set_controller"]


class OwnerError(ValueError):
    """The object cannot have this owner."""


class AlreadyOwnedError(OwnerError):
    """The object has another controller already; `owner` is the reference to it."""

    def __init__(self, child: ObjectMeta, owner: OwnerReference) -> None:
        self.owner = owner
        super().__init__(
            f"{child.key} is controlled by {owner.kind} {owner.name} (uid {owner.uid}); "
            "delete that owner, or use another name"
        )


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The owner reference with `controller: true`, None if there is none."""
    return next((reference for reference in meta.owner_references if reference.controller), None)


def is_controlled_by(meta: ObjectMeta, owner: KubeObject) -> bool:
    """Whether `owner` is the controller, compared by UID: an object recreated under the same name is not."""
    controller = controller_of(meta)
    return controller is not None and bool(controller.uid) and controller.uid == owner.metadata.uid


def set_controller(child: ObjectMeta, owner: KubeObject) -> ObjectMeta:
    """The child's metadata with `owner` as its controller, with `blockOwnerDeletion`.

    A reference to the same group, kind and name is replaced in place, whatever its UID and version: it refers to the
    owner, or to a deleted object of the same name.

    Raises:
        AlreadyOwnedError: another object is the controller.
        OwnerError: the owner has no UID yet, or it is namespaced and the child is not in its namespace, where the
            garbage collector would not find it and delete the child.
    """
    identity = owner.metadata
    if not identity.uid:
        raise OwnerError(f"{owner.kind} {owner.key} has no uid; create it before it owns {child.key}")
    if owner.kind.namespaced and child.namespace != identity.namespace:
        place = f"one in namespace {child.namespace}" if child.namespace else "a cluster-scoped one"
        raise OwnerError(
            f"{owner.kind} {owner.key} cannot own {child.key}: expected a child in namespace {identity.namespace}, got"
            f" {place}; write it without an owner"
        )
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
