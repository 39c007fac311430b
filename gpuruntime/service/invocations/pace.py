"""How far the queue of a function is, for the place of an invocation in it and for the time until there is room.

A sample is at most a second old, and one caller at a time takes one. Places are upper bounds: the queue only moves
forward, so an older sample gives a larger number.
"""

import asyncio
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import WORKERS_CONSUMER, function_stream
from gpuruntime.bus import BusError, ConsumerInfo, JetStream
from gpuruntime.meta import ObjectKey

__all__ = ["QueuePace", "place_in_queue", "seconds_until_room"]

_SAMPLE_SECONDS: Final = 1.0
_MOST_FUNCTIONS: Final = 4096
_DRAINED_SHARE: Final = 0.01
_STANDSTILL_SECONDS: Final = 30.0
_LONGEST_SECONDS: Final = 60.0


@frozen
class _Sample:
    """What the consumer said, and the sample before it that is old enough to measure a pace."""

    taken: float
    info: ConsumerInfo | None
    before: ConsumerInfo | None = None


def place_in_queue(info: ConsumerInfo, sequence: int) -> int:
    """An upper bound of the place of a message that waits: 1 is next. One that is delivered again goes first."""
    if sequence <= info.delivered_sequence:
        return 1
    return max(1, sequence - info.delivered_sequence)


def seconds_until_room(now: ConsumerInfo, before: ConsumerInfo | None, most: int) -> float:
    """When a hundredth of a full queue of `most` will have been taken, at the pace between two samples."""
    if before is None:
        return _STANDSTILL_SECONDS
    passed = (now.server_time - before.server_time).total_seconds()
    taken = _ended(now) - _ended(before)
    if passed <= 0 or taken <= 0:
        return _STANDSTILL_SECONDS
    return min(max(1.0, most * _DRAINED_SHARE * passed / taken), _LONGEST_SECONDS)


def _ended(info: ConsumerInfo) -> int:
    return info.delivered_sequence - info.num_ack_pending


class QueuePace:
    """Samples of the queues of functions, taken when they are asked for."""

    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream
        self._samples: dict[ObjectKey, _Sample] = {}

    async def place(self, function: ObjectKey, sequence: int) -> int | None:
        """An upper bound of the place of a message that was just stored; None while it is not known."""
        info = (await self._sample(function)).info
        return None if info is None else place_in_queue(info, sequence)

    async def seconds_until_room(self, function: ObjectKey, most: int) -> float | None:
        """When to try again to store a message in a full queue; None if it is not known."""
        sample = await self._sample(function)
        return None if sample.info is None else seconds_until_room(sample.info, sample.before, most)

    async def _sample(self, function: ObjectKey) -> _Sample:
        now = asyncio.get_running_loop().time()
        last = self._samples.get(function)
        if last is not None and now - last.taken < _SAMPLE_SECONDS:
            return last
        before = None if last is None else last.info
        # Others use the last sample meanwhile.
        self._samples[function] = _Sample(now, before, None if last is None else last.before)
        try:
            info = await self._jetstream.consumer_info(function_stream(function), WORKERS_CONSUMER)
        except BusError:
            return self._samples[function]
        while len(self._samples) > _MOST_FUNCTIONS:
            del self._samples[next(iter(self._samples))]
        sample = self._samples[function] = _Sample(now, info, before)
        return sample
