"""From a change of one object to the keys that it concerns."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from gpuruntime.control.controllers.keys import keys_in
from gpuruntime.control.informers.changes import Change
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.objects import ObjectMeta, OwnerReference

__all__ = ["Trigger", "itself", "mapped", "owner"]

K = TypeVar("K")
Trigger = Callable[[Change[Any]], Iterable[K]]


def itself() -> Trigger[ObjectKey]:
    """The object that changed."""
    return lambda change: (change.key,)


def owner(kind: ResourceKind, *, controller_only: bool = True) -> Trigger[ObjectKey]:
    """The owners of a kind, in any version of it: those of before and of after, so that an object that moves from one
    owner to another concerns both.
    """

    def keys(change: Change[Any]) -> Iterator[ObjectKey]:
        for metadata in _states(change):
            for reference in metadata.owner_references:
                if _is(reference, kind) and (reference.controller or not controller_only):
                    yield ObjectKey(metadata.namespace if kind.namespaced else "", reference.name)

    return lambda change: dict.fromkeys(keys(change))


def mapped(keys_of: Callable[[Any], Iterable[K]]) -> Trigger[K]:
    """The keys that a function of the object gives, for the state before and for the state after.

    It gives any number of keys, also a single one in a list: `[ObjectKey(namespace, name)]`.
    """

    def keys(change: Change[Any]) -> Iterator[K]:
        for state in (change.before, change.after):
            if state is not None:
                yield from keys_in(keys_of(state), keys_of)

    return lambda change: dict.fromkeys(keys(change))


def _states(change: Change[Any]) -> Iterator[ObjectMeta]:
    for state in (change.before, change.after):
        if state is not None:
            yield state.metadata


def _is(reference: OwnerReference, kind: ResourceKind) -> bool:
    return reference.kind == kind.kind and reference.group == kind.group
