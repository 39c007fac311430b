"""Indexes of a store: lookup by a value, without a scan of all objects."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import field, frozen

__all__ = ["Index", "by_controller", "by_field", "by_label", "by_owner"]

Raw = Mapping[str, Any]


@frozen
class Index:
    """Finds objects by values that `values` computes when an object arrives.

    `values` gets the object as it is on the wire, a dict that it must not change, and returns any number of strings. If
    it raises, the object is quarantined: an index that silently misses objects is worse than none. The name stands for
    the function: of indexes with the same name, the first is used. `path` is the indexed field, if there is one; the
    cache checks it against a typed kind.
    """

    name: str
    values: Callable[[Raw], Iterable[str]] = field(repr=False)
    path: str = field(default="", kw_only=True, repr=False)


def by_field(path: str) -> Index:
    """Index the string, number or boolean at a path such as "spec.nodeName"; objects without it are not in the index.

    The path has JSON names, not Python names: the cache refuses `node_name` for a typed kind.
    """
    steps = path.split(".")

    def values(raw: Raw) -> Iterable[str]:
        found: Any = raw
        for step in steps:
            if not isinstance(found, Mapping) or step not in found:
                return ()
            found = found[step]
        if isinstance(found, bool):
            return ("true" if found else "false",)
        return (str(found),) if isinstance(found, str | int | float) else ()

    return Index(path, values, path=path)


def by_label(label: str) -> Index:
    """Index the value of one label."""

    def values(raw: Raw) -> Iterable[str]:
        labels = raw["metadata"].get("labels") or {}
        return (labels[label],) if label in labels else ()

    return Index(f"label:{label}", values)


def by_owner() -> Index:
    """Index the UIDs of all owners."""
    return Index("owner", lambda raw: [owner["uid"] for owner in raw["metadata"].get("ownerReferences") or ()])


def by_controller() -> Index:
    """Index the UID of the owner that controls the object."""
    return Index("controller", _controllers)


def _controllers(raw: Raw) -> Iterable[str]:
    return [owner["uid"] for owner in raw["metadata"].get("ownerReferences") or () if owner.get("controller")]
