"""The core message that a function has work. It is a hint: what reads it also looks at the queue now and then."""

import asyncio
from contextlib import suppress
from typing import Final

from gpuruntime.api.invocations import wake_subject
from gpuruntime.bus import Bus, BusUnavailableError
from gpuruntime.meta import ObjectKey

__all__ = ["Wakes"]

_PAUSE_SECONDS: Final = 0.1
_MOST_FUNCTIONS: Final = 4096


class Wakes:
    """Sends hints, at most ten a second for a function: each costs a write to the socket."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._sent: dict[ObjectKey, float] = {}

    def send(self, function: ObjectKey) -> None:
        """Say that an invocation of the function was accepted, unless that was said a moment ago."""
        now = asyncio.get_running_loop().time()
        if now - self._sent.get(function, float("-inf")) < _PAUSE_SECONDS:
            return
        if len(self._sent) >= _MOST_FUNCTIONS:
            self._sent.clear()
        self._sent[function] = now
        with suppress(BusUnavailableError):
            self._bus.send(wake_subject(function))
