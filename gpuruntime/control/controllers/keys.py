"""Checks of the keys that sources enqueue: an iterable of keys of the type of the controller."""

from collections.abc import Callable, Iterable
from types import CoroutineType
from typing import Any, TypeVar, get_type_hints

__all__ = ["checked_keys", "key_type_of", "keys_in"]

K = TypeVar("K")
_WANTED = "expected an iterable of keys, such as [ObjectKey(namespace, name)]"


def keys_in(given: Any, function: object) -> Iterable[Any]:
    """The keys that a function returned, if they are an iterable of keys.

    Raises:
        TypeError: one key without a list around it, a text, None, a coroutine; the message says what to return.
    """
    if isinstance(given, str | bytes) or hasattr(given, "_fields"):
        raise TypeError(f"{_name(function)} returned {given!r}: {_WANTED}; put a single key into a list")
    if isinstance(given, CoroutineType):
        given.close()
        raise TypeError(f"{_name(function)} returned a coroutine: {_WANTED}; make it a plain function, without `async`")
    if not isinstance(given, Iterable):
        hint = "; return [] where there is none" if given is None else ""
        raise TypeError(f"{_name(function)} returned {given!r}: {_WANTED}{hint}")
    return given


def checked_keys(given: Iterable[K], function: object, expected: type | None) -> list[K]:
    """All keys that a function returned, each of the expected type; None expects any hashable one.

    Raises:
        TypeError: no keys, or one that is none; the message says what to return.
    """
    keys = list(keys_in(given, function))
    for key in keys:
        if expected is not None and not isinstance(key, expected):
            raise TypeError(
                f"{_name(function)} gave the key {key!r}: expected {_example(expected)}; the keys of a controller are"
                " of the type that its ControllerOptions(parse_key=...) makes, str for texts"
            )
        if key.__hash__ is None:
            raise TypeError(f"{_name(function)} gave the key {key!r}: expected one that can be hashed")
    return keys


def key_type_of(parse_key: Callable[[str], Any]) -> type | None:
    """The type of the keys that a function makes from text: a class, the class of a class method, or the return
    annotation of the function; None if it is unknown.
    """
    owner = parse_key if isinstance(parse_key, type) else getattr(parse_key, "__self__", None)
    if isinstance(owner, type):
        return owner
    try:
        said = get_type_hints(parse_key).get("return")
    except (NameError, TypeError):
        return None
    return said if isinstance(said, type) and said is not object else None


def _example(expected: type) -> str:
    fields = getattr(expected, "_fields", None)
    name = expected.__qualname__
    return f"{name}({', '.join(fields)})" if fields else f"a {name}"


def _name(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
