"""Field managers: which manager set which fields of an object, from its managedFields."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import orjson
from attrs import frozen

__all__ = ["last_manager_of", "last_writer", "managers_of"]

# A name, or brackets: "[name=web]" and "[0]" are elements of a list, "[example.org/a]" is a key of a map.
_STEP: Final = re.compile(r"\[(?P<bracket>[^\]]*)\]|(?P<name>[^.\[\]]+)")
_ELEMENT: Final = re.compile(r"[0-9]+|.*=.*", re.DOTALL)


@frozen
class _Step:
    """One step of a path: a field or map key by name, or a list element by its merge keys, if it has any."""

    name: str = ""
    keys: Mapping[str, str] | None = None

    def may_be(self, other: "_Step") -> bool:
        if self.keys is None or other.keys is None:
            return self.keys is other.keys and self.name == other.name
        return all(other.keys.get(key, value) == value for key, value in self.keys.items())


def managers_of(path: str, raw: Mapping[str, Any]) -> tuple[str, ...]:
    """The managers of the field at a path such as "spec.containers[name=x].image", most likely one first.

    Paths are those of `comparison.differences`. The order is: managers of the field or of something inside, managers of
    an atomic list or map around it, managers that created a map around it; within each group, the last writer first.

    Caveats:
        managedFields has the time of a manager's last write, not that of its last change of this field. List elements
        without merge keys are not distinguished.
    """
    wanted = tuple(_steps(path))
    found: list[tuple[int, str, str]] = []
    for manager, time, fields in _entries(raw):
        closeness = max((_closeness(wanted, owned, made) for owned, made in _owned(fields, ())), default=0)
        if closeness:
            found.append((closeness, time, manager))
    return tuple(dict.fromkeys(manager for _, _, manager in sorted(found, reverse=True)))


def last_manager_of(path: str, raw: Mapping[str, Any], *, except_for: Collection[str]) -> str | None:
    """The most likely manager of a field, some managers excepted; None if there is no other."""
    return next((manager for manager in managers_of(path, raw) if manager not in except_for), None)


def last_writer(raw: Mapping[str, Any], *, except_for: Collection[str]) -> str | None:
    """The manager that wrote the object last, some excepted, among those that still manage a field."""
    found = [(time, manager) for manager, time, _ in _entries(raw) if manager not in except_for]
    return max(found)[1] if found else None


def _entries(raw: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for entry in (raw.get("metadata") or {}).get("managedFields") or ():
        yield str(entry.get("manager", "")), str(entry.get("time", "")), entry.get("fieldsV1") or {}


def _steps(path: str) -> Iterator[_Step]:
    for step in _STEP.finditer(path):
        bracket = step["bracket"]
        if bracket is None or not _ELEMENT.fullmatch(bracket):
            yield _Step(step["name"] or bracket)
        else:
            pairs = (part.partition("=") for part in bracket.split(",") if "=" in part)
            yield _Step(keys={key: value for key, _, value in pairs})


def _owned(fields: Mapping[str, Any], above: tuple[_Step, ...]) -> Iterator[tuple[tuple[_Step, ...], bool]]:
    """The paths that a manager owns, each with whether it owns only the existence of the map or element."""
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
    """How closely an owned path matches the wanted one: 0 if not at all."""
    shorter = min(len(wanted), len(owned))
    if not shorter or not all(one.may_be(other) for one, other in zip(wanted, owned, strict=False)):
        return 0
    if len(owned) >= len(wanted):
        return 3
    return 1 if made else 2
