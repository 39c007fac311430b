"""Edits of one field of an object, as users make them by hand."""

from typing import Any, Final

from gpuruntime.testing import AdminClient

__all__ = ["MISSING", "Path", "edit"]

Path = tuple[str | int, ...]
"""The names and indexes that lead to a field; "-" at the end is the end of a list."""
MISSING: Final = "(missing)"
"""The value of a field that is not there."""


def edit(admin: AdminClient, address: str, path: Path, value: Any) -> Any:
    """Set the value at a path, append it to a list ("-") or remove it (MISSING), whatever happens to the object
    meanwhile; returns the object as it is then.
    """
    body = admin.get(address)
    del body["metadata"]["resourceVersion"]
    *parents, last = path
    spot = body
    for parent in parents:
        spot = spot.setdefault(parent, {}) if isinstance(spot, dict) else spot[int(parent)]
    if last == "-":
        spot.append(value)
    elif value is MISSING:
        del spot[last]
    else:
        spot[last] = value
    return admin.request("PUT", address, body)
