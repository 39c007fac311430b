"""Connections for tests of the bus."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gpuruntime.bus import Bus, BusOptions, StreamConfig

__all__ = ["QUEUE", "RESULTS", "connected"]

QUEUE: Final = StreamConfig(
    name="QUEUE",
    subjects=("inv.>",),
    retention="workqueue",
    discard="new",
    discard_new_per_subject=True,
    max_messages_per_subject=1,
    max_messages=100,
    duplicate_window=120.0,
    allow_direct=True,
    allow_atomic=True,
)
"""A stream like that of a function."""
RESULTS: Final = StreamConfig(
    name="RESULTS",
    subjects=("res.>",),
    discard="new",
    discard_new_per_subject=True,
    max_messages_per_subject=1,
    allow_direct=True,
    allow_message_ttl=True,
)
"""The stream of results."""


@asynccontextmanager
async def connected(options: BusOptions) -> AsyncIterator[Bus]:
    """A bus that runs for the length of the block; it is connected at its begin."""
    bus = Bus(options)
    running = asyncio.create_task(bus.run())
    try:
        async with asyncio.timeout(20):
            await bus.wait_connected()
        yield bus
    finally:
        running.cancel()
        await asyncio.wait([running])
