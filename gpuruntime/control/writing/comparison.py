"""Comparison of desired and live objects that tolerates defaulting and normalisation by the API server."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
from attrs import frozen

from gpuruntime.control.writing.field_rules import (
    BUILT_IN_GROUPS,
    CLOSED,
    EXTENDED_BY_ADMISSION,
    EXTENDED_BY_OTHERS,
    FREE_MAPS,
    INT_OR_STRING,
    KEY_DEFAULTS,
    LEFT_TO_SERVER,
    MERGE_KEYS,
    OMITTED_STRUCTS,
    OMITTED_ZEROS,
    ORDERED,
    OWNED_LISTS,
    QUANTITIES,
    QUANTITY_MAPS,
)
from gpuruntime.meta.quantities import QuantityError, parse_quantity

__all__ = ["differences", "metadata_differences"]

Json = Mapping[str, Any]

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SCALARS: Final = frozenset({str, int, bool})
_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_NOT_DESIRED: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


def differences(desired: Json, live: Json, *, shared: bool = False) -> tuple[str, ...]:
    """The paths at which the live object differs from the desired one; empty if there is nothing to write.

    Both are objects in JSON form. In the metadata, labels, annotations, finalizers and owner references are compared.
    The status is not compared.

    Guarantees:
        - The live object may have more than is desired, such as defaults and labels of others. Containers, their
          environment, ports, mounts and arguments, volumes, tolerations, selectors, data, rules of network policies
          and of roles must be exactly as desired, even if none are desired. `shared` objects may have containers,
          variables and data of others.
        - Quantities are compared by amount, ports and percentages quoted or not, lists with a merge key by that key.
        - null, [] and an empty map equal absence; so do false, 0 and "" where the API omits or defaults them: see
          `field_rules`.
        - A path contains no values of fields: "spec.template.spec.containers[name=web].image".

    Caveats:
        A field that was desired earlier and no longer is, is no difference. The defaulting of kinds outside the
        built-in groups is unknown: lists that are not desired are ignored there.
    """
    group = str(desired.get("apiVersion", "")).rpartition("/")[0]
    comparison = _Comparison(
        built_in=group in BUILT_IN_GROUPS,
        pod=not group and desired.get("kind") == "Pod",
        aggregated="aggregationRule" in desired,
        shared=shared,
    )
    return tuple(comparison.of_objects(desired, live))


def metadata_differences(desired: Json, live: Json) -> tuple[str, ...]:
    """The differences in the metadata only."""
    return differences({"metadata": desired.get("metadata")}, {"metadata": live.get("metadata")})


class _Place:
    """The position of a value: the names of its field and parent field for the rules, and its path.

    The path is built on demand, because most values do not differ.
    """

    __slots__ = ("_mark", "_outer", "name", "parent")

    def __init__(
        self, outer: "_Place | None" = None, name: str = "", parent: str = "", mark: str | None = None
    ) -> None:
        self._outer = outer
        self._mark = mark
        self.name = name
        self.parent = parent

    @property
    def path(self) -> str:
        if self._outer is None:
            return ""
        if self._mark is not None:
            return f"{self._outer.path}[{self._mark}]"
        step = f".{self.name}" if _PLAIN.fullmatch(self.name) else f"[{self.name}]"
        return (self._outer.path + step).lstrip(".")

    def field(self, name: str) -> "_Place":
        return _Place(self, name, self.name)

    def element(self, mark: str) -> "_Place":
        return _Place(self, self.name, self.parent, mark)

    def is_in(self, table: frozenset[str]) -> bool:
        return self.name in table or f"{self.parent}.{self.name}" in table


@frozen
class _Comparison:
    built_in: bool
    pod: bool
    aggregated: bool
    shared: bool

    def of_objects(self, desired: Json, live: Json) -> Iterator[str]:
        ours, theirs = desired.get("metadata") or {}, live.get("metadata") or {}
        metadata = {name: ours[name] for name in _METADATA if name in ours}
        yield from self._maps(_Place().field("metadata"), metadata, theirs)
        yield from self._maps(
            _Place(),
            {name: value for name, value in desired.items() if name not in _NOT_DESIRED},
            {name: value for name, value in live.items() if name not in _NOT_DESIRED},
        )

    def _values(self, place: _Place, desired: Any, live: Any) -> Iterator[str]:
        if desired is None or (_is_zero(desired) and place.name in LEFT_TO_SERVER and place.parent not in FREE_MAPS):
            return
        if _is_absent(place, live):
            if not _is_absent(place, desired):
                yield place.path
        elif isinstance(desired, dict) and isinstance(live, dict):
            yield from self._maps(place, desired, live)
        elif _is_list(desired) and _is_list(live):
            yield from self._lists(place, desired, live)
        elif not _is_same(place, desired, live):
            yield place.path

    def _maps(self, place: _Place, desired: Json, live: Json) -> Iterator[str]:
        for name, value in desired.items():
            other = live.get(name)
            if not _is_equal(value, other):
                yield from self._values(place.field(name), value, other)
        for name, value in live.items():
            if name in desired:
                continue
            inside = place.field(name)
            filled_in = place.name == "ports" and KEY_DEFAULTS.get(name) == value
            if not filled_in and not _is_absent(inside, value) and self._is_unwanted(place, inside):
                yield inside.path

    def _is_unwanted(self, place: _Place, inside: _Place) -> bool:
        """Whether a field that is not desired must not be there."""
        if not self.built_in:
            return False
        if place.is_in(CLOSED):
            return not (self.shared and place.name in {"data", "binaryData"})
        if self.shared or self._may_have_more(inside) or (self.aggregated and inside.path == "rules"):
            return False
        return inside.is_in(OWNED_LISTS)

    def _may_have_more(self, place: _Place) -> bool:
        return (
            place.is_in(EXTENDED_BY_OTHERS)
            or (self.pod and place.name in EXTENDED_BY_ADMISSION)
            or (self.shared and place.name in MERGE_KEYS)
        )

    def _lists(self, place: _Place, desired: Sequence[Any], live: Sequence[Any]) -> Iterator[str]:
        ours, theirs = _by_key(place.name, desired, live)
        if ours is not None and theirs is not None:
            yield from self._keyed_lists(place, ours, theirs)
        elif self._may_have_more(place):
            for index, value in enumerate(desired):
                inside = place.element(str(index))
                if all(any(self._values(inside, value, other)) for other in live):
                    yield inside.path
        elif len(desired) != len(live):
            yield place.path
        else:
            for index, (value, other) in enumerate(zip(desired, live, strict=True)):
                yield from self._values(place.element(str(index)), value, other)

    def _keyed_lists(self, place: _Place, desired: Json, live: Json) -> Iterator[str]:
        for key, value in desired.items():
            inside = place.element(key)
            if key in live:
                yield from self._maps(inside, value, live[key])
            else:
                yield inside.path
        if not self._may_have_more(place):
            yield from (place.element(key).path for key in live if key not in desired)
            if place.name in ORDERED and desired.keys() == live.keys() and list(desired) != list(live):
                yield place.path


def _by_key(name: str, desired: Sequence[Any], live: Sequence[Any]) -> tuple[Json | None, Json | None]:
    """Both lists as maps from merge keys to elements, or None if they have no usable key."""
    for fields in MERGE_KEYS.get(name, ()):
        maps = [_keyed(fields, elements) for elements in (desired, live)]
        if None not in maps:
            return maps[0], maps[1]
    return None, None


def _keyed(fields: tuple[str, ...], elements: Sequence[Any]) -> Json | None:
    keyed: dict[str, Any] = {}
    for element in elements:
        if not isinstance(element, dict) or fields[0] not in element:
            return None
        key = ",".join(f"{field}={element.get(field) or KEY_DEFAULTS.get(field)}" for field in fields)
        if key in keyed:
            return None
        keyed[key] = element
    return keyed


def _is_absent(place: _Place, value: Any) -> bool:
    if value is None or (not value and _is_list(value)):
        return True
    if isinstance(value, dict):
        if place.name not in FREE_MAPS and place.name not in OMITTED_STRUCTS:
            return False
        return all(_is_absent(place.field(name), inner) for name, inner in value.items())
    return _is_zero(value) and place.name in OMITTED_ZEROS and place.parent not in FREE_MAPS


def _is_equal(desired: Any, live: Any) -> bool:
    """A quick check that two values are the same JSON; False does not mean that they differ."""
    if type(desired) in _SCALARS:
        return type(desired) is type(live) and bool(desired == live)
    # In Python True equals 1 and 1 equals 1.0, but their JSON differs.
    return bool(desired == live) and orjson.dumps(desired) == orjson.dumps(live)


def _is_zero(value: Any) -> bool:
    return value is False or value == "" or (type(value) in {int, float} and value == 0)


def _is_same(place: _Place, desired: Any, live: Any) -> bool:
    if isinstance(desired, bool) or isinstance(live, bool):
        return desired is live
    if place.parent in QUANTITY_MAPS or (place.name in QUANTITIES and place.parent not in FREE_MAPS):
        try:
            return parse_quantity(desired) == parse_quantity(live)
        except (QuantityError, TypeError):
            return bool(desired == live)
    if place.name in INT_OR_STRING and place.parent not in FREE_MAPS and {type(desired), type(live)} == {int, str}:
        return str(desired) == str(live)
    return bool(desired == live)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
