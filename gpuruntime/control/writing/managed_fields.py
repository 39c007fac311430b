"""Who set which fields of an object, as the API server keeps account of it."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import orjson
from attrs import frozen

__all__ = ["last_manager_of", "last_writer", "managers_of"]

# A name, or something in brackets: "[name=web]" and "[0]" are elements of a list, "[example.org/a]" a key of a map.
_STEP: Final = re.compile(r"\[(?P<mark>[^\]]*)\]|(?P<name>[^.\[\]]+)")
_ELEMENT: Final = re.compile(r"[0-9]+|.*=.*", re.DOTALL)


@frozen
class _Step:
    """One step of a path: a field or a key of a map by its name, or an element of a list by its keys, if it has any."""

    name: str = ""
    keys: Mapping[str, str] | None = None

    def may_be(self, other: "_Step") -> bool:
        if self.keys is None or other.keys is None:
            return self.keys is other.keys and self.name == other.name
        return all(other.keys.get(key, value) == value for key, value in self.keys.items())


def managers_of(path: str, raw: Mapping[str, Any]) -> tuple[str, ...]:
    """The managers of the field at a path such as "spec.containers[name=x].image", the likeliest to have set it first.

    Paths are those of `comparing.differences`. First come those that manage the field or something inside of it, then
    those of a list or map that has the field and is set as a whole, then those that made a map that has it; of those
    alike, the one that wrote last.

    Caveats:
        When a manager changed something last is all that is known, not when it changed the field. Elements of lists
        that have no keys are not distinguished.
    """
    wanted = tuple(_steps(path))
    found: list[tuple[int, str, str]] = []
    for manager, time, fields in _entries(raw):
        closeness = max((_closeness(wanted, owned, made) for owned, made in _owned(fields, ())), default=0)
        if closeness:
            found.append((closeness, time, manager))
    return tuple(dict.fromkeys(manager for _, _, manager in sorted(found, reverse=True)))


def last_manager_of(path: str, raw: Mapping[str, Any], *, except_for: Collection[str]) -> str | None:
    """The likeliest of the managers of a field, but for some; None if there is no other."""
    return next((manager for manager in managers_of(path, raw) if manager not in except_for), None)


def last_writer(raw: Mapping[str, Any], *, except_for: Collection[str]) -> str | None:
    """The manager, but for some, that wrote anything of the object last, among those that manage something still."""
    found = [(time, manager) for manager, time, _ in _entries(raw) if manager not in except_for]
    return max(found)[1] if found else None


def _entries(raw: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for entry in (raw.get("metadata") or {}).get("managedFields") or ():
        yield str(entry.get("manager", "")), str(entry.get("time", "")), entry.get("fieldsV1") or {}


def _steps(path: str) -> Iterator[_Step]:
    for step in _STEP.finditer(path):
        mark = step["mark"]
        if mark is None or not _ELEMENT.fullmatch(mark):
            yield _Step(step["name"] or mark)
        else:
            pairs = (part.partition("=") for part in mark.split(",") if "=" in part)
            yield _Step(keys={key: value for key, _, value in pairs})


def _owned(fields: Mapping[str, Any], above: tuple[_Step, ...]) -> Iterator[tuple[tuple[_Step, ...], bool]]:
    """The paths of what a manager has, and of each whether that is the mere fact that a map or an element is there."""
    inside = {name: inner for name, inner in fields.items() if name != "."}
    if not inside:
        yield above, "." in fields
    for name, inner in inside.items():
        yield from _owned(inner, (*above, _owned_step(name)))


def _owned_step(name: str) -> _Step:
    # "f:image" is a field; "k:{...}", "v:..." and "i:..." are elements of a list.
    if name.startswith("f:"):
        return _Step(name[2:])
    keys = orjson.loads(name[2:]) if name.startswith("k:") else {}
    return _Step(
        keys={key: value if isinstance(value, str) else orjson.dumps(value).decode() for key, value in keys.items()}
    )


def _closeness(wanted: tuple[_Step, ...], owned: tuple[_Step, ...], made: bool) -> int:
    """0 if what is owned has nothing to do with what is wanted, else more the closer it is."""
    shorter = min(len(wanted), len(owned))
    if not shorter or not all(one.may_be(other) for one, other in zip(wanted, owned, strict=False)):
        return 0
    if len(owned) >= len(wanted):
        return 3
    return 1 if made else 2
