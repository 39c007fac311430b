"""asyncio building blocks: clock, backoff, retries, fair scheduling, singleflight, garbage collector settings.

The public names are listed here; import from here.
"""

from gpuruntime.aio.backoff import Backoff, BackoffSchedule
from gpuruntime.aio.clock import seconds_since_boot
from gpuruntime.aio.collector import collect_rarely
from gpuruntime.aio.lru import LRU
from gpuruntime.aio.singleflight import Singleflight
from gpuruntime.aio.turns import Turns

__all__ = ["LRU", "Backoff", "BackoffSchedule", "Singleflight", "Turns", "collect_rarely", "seconds_since_boot"]
