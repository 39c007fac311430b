"""The JSON of units for event streams: encoded once for each version of a unit, and shared by all streams."""

from collections import OrderedDict
from typing import Final

import orjson

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.meta import encode
from gpuruntime.web.resources.masking import masked
from gpuruntime.web.resources.unit_models import unit_view

__all__ = ["ViewCache"]

_MAX_BYTES: Final = 32 * 2**20


class ViewCache:
    """An LRU cache of unit views as JSON: unmasked for callers who may write, masked for all others.

    Guarantees:
        It holds no more than `max_bytes`.
    """

    def __init__(self, namespaces: Namespaces, max_bytes: int = _MAX_BYTES) -> None:
        self._namespaces = namespaces
        self._max_bytes = max_bytes
        self._cached: OrderedDict[tuple[str, str, bool], bytes] = OrderedDict()
        self._size = 0

    def unmasked(self, unit: GPUUnit) -> bytes:
        """The view for callers who may write."""
        return self._json(unit, mask=False)

    def masked(self, unit: GPUUnit) -> bytes:
        """The view for callers who may only read."""
        return self._json(unit, mask=True)

    def _json(self, unit: GPUUnit, *, mask: bool) -> bytes:
        key = (unit.metadata.uid, unit.metadata.resource_version, mask)
        cached = self._cached.get(key)
        if cached is not None:
            self._cached.move_to_end(key)
            return cached
        view = unit_view(unit, self._namespaces)
        encoded = orjson.dumps(encode(masked(view) if mask else view))
        # Without UID and version the key does not identify the state.
        if unit.metadata.uid and unit.metadata.resource_version:
            self._add(key, encoded)
        return encoded

    def _add(self, key: tuple[str, str, bool], encoded: bytes) -> None:
        self._cached[key] = encoded
        self._size += len(encoded)
        while self._size > self._max_bytes:
            self._size -= len(self._cached.popitem(last=False)[1])
