"""The JSON of units for those who follow them: written once for each state of a unit, however many follow."""

from collections import OrderedDict
from typing import Final

import orjson

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.meta import encode
from gpuruntime.web.resources.unit_views import unit_view
from gpuruntime.web.server.masking import masked

__all__ = ["SharedViews"]

_KEPT_BYTES: Final = 32 * 2**20


class SharedViews:
    """What callers see of units, as JSON: in clear for those who may write, masked for the others.

    Guarantees:
        No more than `kept` bytes are remembered; what was asked for least recently goes first.
    """

    def __init__(self, namespaces: Namespaces, kept: int = _KEPT_BYTES) -> None:
        self._namespaces = namespaces
        self._kept = kept
        self._known: OrderedDict[tuple[str, str, bool], bytes] = OrderedDict()
        self._size = 0

    def clear(self, unit: GPUUnit) -> bytes:
        """The unit as those see it who may write."""
        return self._of(unit, clear=True)

    def masked(self, unit: GPUUnit) -> bytes:
        """The unit as those see it who may only read."""
        return self._of(unit, clear=False)

    def _of(self, unit: GPUUnit, *, clear: bool) -> bytes:
        state = (unit.metadata.uid, unit.metadata.resource_version, clear)
        known = self._known.get(state)
        if known is not None:
            self._known.move_to_end(state)
            return known
        view = unit_view(unit, self._namespaces)
        written = orjson.dumps(encode(view if clear else masked(view)))
        # Without them it is no state that could be told from another.
        if unit.metadata.uid and unit.metadata.resource_version:
            self._keep(state, written)
        return written

    def _keep(self, state: tuple[str, str, bool], written: bytes) -> None:
        self._known[state] = written
        self._size += len(written)
        while self._size > self._kept:
            self._size -= len(self._known.popitem(last=False)[1])
