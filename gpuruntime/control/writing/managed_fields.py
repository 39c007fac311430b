"""Who set which fields of an object, as the API server keeps account of it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["last_manager_of"]

# A name, or something in brackets: "[name=web]" and "[0]" are elements of a list, "[example.org/a]" a key of a map.
_STEP: Final = re.compile(r"\[(?P<mark>[^\]]*)\]|(?P<name>[^.\[\]]+)")
_ELEMENT: Final = re.compile(r"[0-9]+|.*=.*", re.DOTALL)


def last_manager_of(path: str, raw: Mapping[str, Any], *, except_for: str) -> str | None:
    """The manager other than `except_for` that set the field at a path such as "spec.containers[name=x].image" last.

    Paths are those of `comparing.differences`. A manager of something inside of the field, or of a list or map that has
    the field and is set as a whole, counts as well.

    Caveats:
        Elements of lists are not told apart: a manager of the field in any element counts. When a manager changed
        something last is all that is known, not when it changed the field.
    """
    wanted = _plain(path)
    found: list[tuple[str, str]] = []
    for entry in (raw.get("metadata") or {}).get("managedFields") or ():
        manager = str(entry.get("manager", ""))
        if manager != except_for and any(_overlaps(wanted, owned) for owned in _paths(entry.get("fieldsV1") or {}, ())):
            found.append((str(entry.get("time", "")), manager))
    return max(found)[1] if found else None


def _plain(path: str) -> tuple[str, ...]:
    """The names of the fields and the keys of the maps on a path, without the elements of lists."""
    steps = (step["name"] or step["mark"] for step in _STEP.finditer(path) if not _is_element(step["mark"]))
    return tuple(steps)


def _is_element(mark: str | None) -> bool:
    return mark is not None and _ELEMENT.fullmatch(mark) is not None


def _paths(fields: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    # "." says that the manager made the map, or the element, that the other fields are in.
    inside = {name: inner for name, inner in fields.items() if name != "."}
    if not inside:
        yield above
    for name, inner in inside.items():
        # "f:image" is a field; "k:{...}" and "v:..." are elements of a list.
        yield from _paths(inner, (*above, name[2:]) if name.startswith("f:") else above)


def _overlaps(wanted: tuple[str, ...], owned: tuple[str, ...]) -> bool:
    shorter = min(len(wanted), len(owned))
    return shorter > 0 and wanted[:shorter] == owned[:shorter]
