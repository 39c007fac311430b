"""The JSON of objects for event streams: encoded once for each version of an object, and shared by all streams."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import orjson

from gpuruntime.api.rest.objects import ObjectView
from gpuruntime.meta import TypedObject, encode
from gpuruntime.web.resources.masking import masked

__all__ = ["ViewCache"]

K = TypeVar("K", bound=TypedObject)
_MAX_BYTES: Final = 32 * 2**20


class ViewCache(Generic[K]):
    """An LRU cache of views as JSON: unmasked for callers who may write, masked for all others.

    Guarantees:
        It holds no more than `max_bytes`.
    """

    def __init__(self, view: Callable[[K], ObjectView], max_bytes: int = _MAX_BYTES) -> None:
        self._view = view
        self._max_bytes = max_bytes
        self._cached: OrderedDict[tuple[str, str, bool], bytes] = OrderedDict()
        self._size = 0

    def unmasked(self, found: K) -> bytes:
        """The view for callers who may write."""
        return self._json(found, mask=False)

    def masked(self, found: K) -> bytes:
        """The view for callers who may only read."""
        return self._json(found, mask=True)

    def _json(self, found: K, *, mask: bool) -> bytes:
        key = (found.metadata.uid, found.metadata.resource_version, mask)
        cached = self._cached.get(key)
        if cached is not None:
            self._cached.move_to_end(key)
            return cached
        view = self._view(found)
        encoded = orjson.dumps(encode(masked(view) if mask else view))
        # Without UID and version the key does not identify the state.
        if found.metadata.uid and found.metadata.resource_version:
            self._add(key, encoded)
        return encoded

    def _add(self, key: tuple[str, str, bool], encoded: bytes) -> None:
        self._cached[key] = encoded
        self._size += len(encoded)
        while self._size > self._max_bytes:
            self._size -= len(self._cached.popitem(last=False)[1])
