"""Triggers: from a change of one object to the keys to enqueue."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from gpuruntime.control.controllers.keys import keys_in
from gpuruntime.control.informers.changes import Change
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.objects import ObjectMeta, OwnerReference

__all__ = ["Trigger", "enqueue_mapped", "enqueue_object", "enqueue_owner"]

K = TypeVar("K")
Trigger = Callable[[Change[Any]], Iterable[K]]


def enqueue_object() -> Trigger[ObjectKey]:
    """Enqueue the object that changed."""
    return lambda change: (change.key,)


def enqueue_owner(kind: ResourceKind, *, controller_only: bool = True) -> Trigger[ObjectKey]:
    """Enqueue the owners of a kind, in any API version of it: those before the change and those after it, so that an
    object that moves from one owner to another enqueues both.

    With `controller_only`, only the owner whose reference has `controller: true`.
    """

    def keys(change: Change[Any]) -> Iterator[ObjectKey]:
        for metadata in _states(change):
            for reference in metadata.owner_references:
                if _is(reference, kind) and (reference.controller or not controller_only):
                    yield ObjectKey(metadata.namespace if kind.namespaced else "", reference.name)

    return lambda change: dict.fromkeys(keys(change))


def enqueue_mapped(keys_of: Callable[[Any], Iterable[K]]) -> Trigger[K]:
    """Enqueue the keys that a function of the object returns, for the state before a change and for the state after it.

    It returns an iterable of keys, also for a single one: `[ObjectKey(namespace, name)]`.
    """

    def keys(change: Change[Any]) -> Iterator[K]:
        for state in (change.before, change.after):
            if state is not None:
                yield from keys_in(keys_of(state), keys_of)

    def mapped(change: Change[Any]) -> Iterable[K]:
        return dict.fromkeys(keys(change))

    # Errors about the keys name the function that returned them.
    mapped.__qualname__ = getattr(keys_of, "__qualname__", repr(keys_of))
    return mapped


def _states(change: Change[Any]) -> Iterator[ObjectMeta]:
    for state in (change.before, change.after):
        if state is not None:
            yield state.metadata


def _is(reference: OwnerReference, kind: ResourceKind) -> bool:
    return reference.kind == kind.kind and reference.group == kind.group
