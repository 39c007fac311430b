"""Predicates: which changes enqueue anything. They decide about modifications; additions and deletions pass all of
them, except `matching`, which decides about objects.

An object that was deleted and created again under its name is two changes: no predicate takes it for an unchanged one.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from gpuruntime.control.informers.changes import Change
from gpuruntime.meta.label_selectors import Selector, parse_selector
from gpuruntime.meta.objects import ObjectMeta

__all__ = [
    "Predicate",
    "all_of",
    "annotations_changed",
    "any_of",
    "generation_changed",
    "labels_changed",
    "matching",
    "negated",
    "resource_version_changed",
]

T = TypeVar("T")
Predicate = Callable[[Change[Any]], bool]


def generation_changed() -> Predicate:
    """The spec changed, or the deletion of the object began. Kinds without a generation always pass; other changes of
    metadata, and of the status, never do.
    """
    return _modified(lambda before, after: before.generation != after.generation or after.generation == 0)


def labels_changed() -> Predicate:
    return _modified(lambda before, after: before.labels != after.labels)


def annotations_changed() -> Predicate:
    return _modified(lambda before, after: before.annotations != after.annotations)


def resource_version_changed() -> Predicate:
    """Anything changed."""
    return _modified(lambda before, after: before.resource_version != after.resource_version)


def matching(labels: str | Selector) -> Predicate:
    """The object matches the selector, or did before the change, so that one that stops matching passes once."""
    selector = parse_selector(labels) if isinstance(labels, str) else labels

    def admits(change: Change[Any]) -> bool:
        return any(
            selector.matches(_metadata(state).labels) for state in (change.before, change.after) if state is not None
        )

    return admits


def all_of(*predicates: Predicate) -> Predicate:
    return lambda change: all(predicate(change) for predicate in predicates)


def any_of(*predicates: Predicate) -> Predicate:
    return lambda change: any(predicate(change) for predicate in predicates)


def negated(predicate: Predicate) -> Predicate:
    """The modifications that the predicate refuses; additions and deletions still pass."""
    return lambda change: change.type != "modified" or not predicate(change)


def _modified(differs: Callable[[ObjectMeta, ObjectMeta], bool]) -> Predicate:
    def admits(change: Change[Any]) -> bool:
        before, after = change.before, change.after
        return before is None or after is None or differs(_metadata(before), _metadata(after))

    return admits


def _metadata(obj: Any) -> ObjectMeta:
    metadata = getattr(obj, "metadata", None)
    if not isinstance(metadata, ObjectMeta):
        raise TypeError(
            f"a {type(obj).__name__} has no metadata to compare: write a predicate of your own for projections"
        )
    return metadata
