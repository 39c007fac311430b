"""An immutable dict, and deep freezing of JSON values.

`FrozenDict` is a `dict` on purpose: reads are as fast as those of a dict, `isinstance(value, dict)` holds, and `orjson`
encodes it natively.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar, cast

__all__ = ["EMPTY", "FrozenDict", "freeze", "thaw"]

K = TypeVar("K")
V = TypeVar("V")

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


class FrozenDict(dict[K, V]):
    """An immutable dict, hashable when its values are.

    Guarantees: every mutating method raises `TypeError`. `|` returns a new FrozenDict. Pickling and deep copies keep
    the type.

    Caveats: `copy()` returns a plain dict, which can be edited and passed to `FrozenDict` again. It protects from
    mistakes only: `dict.__setitem__(frozen, ...)` and a second call of `__init__` still modify it.
    """

    __slots__ = ()

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("FrozenDict is immutable; use `frozen | {...}` or edit a `frozen.copy()`")

    __setitem__ = _refuse
    __delitem__ = _refuse
    __ior__ = _refuse
    clear = _refuse
    pop = _refuse
    popitem = _refuse
    setdefault = _refuse
    update = _refuse

    # dict sets __hash__ to None, and mypy uses that as the type of the attribute.
    def __hash__(self) -> int:  # type: ignore[override]  # see above
        return hash(frozenset(self.items()))

    # dict has two overloads; the one for other key and value types is not needed here.
    def __or__(self, other: Mapping[K, V]) -> "FrozenDict[K, V]":  # type: ignore[override]  # see above
        if not isinstance(other, Mapping):
            return NotImplemented
        return FrozenDict({**self, **other})

    def __ror__(self, other: Mapping[K, V]) -> "FrozenDict[K, V]":  # type: ignore[override]  # see above
        if not isinstance(other, Mapping):
            return NotImplemented
        return FrozenDict({**other, **self})

    def __reduce__(self) -> tuple[type["FrozenDict[K, V]"], tuple[dict[K, V]]]:
        # The inherited protocol fills an empty instance item by item, which is a mutation.
        return FrozenDict, (dict(self),)

    def __repr__(self) -> str:
        return f"FrozenDict({dict.__repr__(self)})"


EMPTY: Final[FrozenDict[Any, Any]] = FrozenDict()


def freeze(value: Any) -> Any:
    """Convert every dict of a JSON value to a FrozenDict and every list to a tuple, recursively.

    Frozen values are converted again, because a FrozenDict or a tuple may contain mutable values.

    Raises:
        TypeError: not a JSON value, such as a datetime or a key that is not a string (YAML loaders produce both from
            unquoted text). The message contains the type only, not the value.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, dict):
        if not value:
            return EMPTY
        for key in value:
            if type(key) is not str:
                raise TypeError(f"expected a string as key of a JSON object, got {type(key).__name__}")
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if kind is list or kind is tuple:
        return tuple([freeze(item) for item in value])
    raise TypeError(f"expected a JSON value, got {kind.__name__}")


def thaw(value: Any) -> Any:
    """A deep, mutable copy of a frozen JSON value, of plain dicts and lists."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value
