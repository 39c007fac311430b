"""Changes of an object as merge patches (RFC 7386): what is absent stays, null removes, lists are replaced."""

from collections.abc import Mapping
from typing import Any

__all__ = ["merged"]


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
