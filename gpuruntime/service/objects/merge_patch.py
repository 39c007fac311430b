"""Changes of an object as merge patches (RFC 7386): what is absent stays, null removes, lists are replaced."""

from collections.abc import Mapping
from typing import Any, TypeVar

from gpuruntime.meta import DecodeError, Struct, decode, encode
from gpuruntime.service.errors import InvalidRequestError

__all__ = ["changed", "merged"]

S = TypeVar("S", bound=Struct)


def changed(value: S, change: Mapping[str, Any]) -> S:
    """A value with a change made.

    Raises:
        InvalidRequestError: there would be no such value any more: the change removes what has to be there.
    """
    try:
        return decode(type(value), merged(encode(value), change))
    except DecodeError as error:
        faults = (failure.rpartition(" @ $.") for failure in error.failures)
        raise InvalidRequestError(tuple(f"{path}: {text}" for text, _, path in faults)) from error


def merged(value: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object with a change made. Neither of the two is changed."""
    result = dict(value)
    for key, item in change.items():
        if item is None:
            result.pop(key, None)
        elif isinstance(item, Mapping):
            before = result.get(key)
            result[key] = merged(before if isinstance(before, Mapping) else {}, item)
        else:
            result[key] = item
    return result
