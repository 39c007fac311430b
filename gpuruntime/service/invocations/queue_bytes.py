"""How many bytes wait in the queue of a function: the limit `maxQueuedBytes`, which its stream cannot have.

NATS reserves the `max_bytes` of a stream when it makes the stream, so the limits of all functions together could not
exceed its storage.
"""

import asyncio
from functools import lru_cache
from typing import Final

from attrs import define

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.invocations import function_stream
from gpuruntime.bus import BusError, JetStream
from gpuruntime.meta import ObjectKey, parse_quantity

__all__ = ["QueueBytes"]

_LOOK_SECONDS: Final = 1.0
_MOST_FUNCTIONS: Final = 4096


@define
class _Look:
    """The bytes of a stream when it was looked at, and what this process has written since."""

    taken: float
    found: int = 0
    added: int = 0


@lru_cache(1024)
def _bytes(quantity: int | str) -> int:
    return parse_quantity(quantity).ceil()


class QueueBytes:
    """Looks at a queue once a second at most, when it is asked, and counts what this process writes in between.

    Caveats:
        What other replicas write within that second may exceed the limit.
    """

    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream
        self._looks: dict[ObjectKey, _Look] = {}

    async def take(self, function: GPUFunction, size: int) -> bool:
        """Whether the queue has room for a message of this size, which is counted then.

        While NATS does not answer there is room: the write that follows says what is wrong.
        """
        look = await self._look(function.key)
        if look.found + look.added + size > _bytes(function.spec.invocation.max_queued_bytes):
            return False
        look.added += size
        return True

    async def _look(self, function: ObjectKey) -> _Look:
        now = asyncio.get_running_loop().time()
        last = self._looks.get(function)
        if last is not None and now - last.taken < _LOOK_SECONDS:
            return last
        if last is not None:
            last.taken = now  # others use it meanwhile
        try:
            stream = await self._jetstream.stream_info(function_stream(function))
        except BusError:
            return last or _Look(now)
        while len(self._looks) >= _MOST_FUNCTIONS:
            del self._looks[next(iter(self._looks))]
        look = self._looks[function] = _Look(now, 0 if stream is None else stream.bytes)
        return look
