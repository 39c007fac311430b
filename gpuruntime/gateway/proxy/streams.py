"""Open streams: how many a caller and a storage have, and what ended."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from attrs import frozen

from gpuruntime.endpoints.server.errors import ApiError
from gpuruntime.meta import ObjectKey

__all__ = ["ENDS", "StreamLimits", "Streams"]

K = TypeVar("K")

ENDS: Final = ("complete", "refused", "client_closed", "idle", "drained", "accessor_failed")
"""How a stream ends.

- complete: all bytes were sent;
- refused: there was no stream, the response says why;
- client_closed: the caller disconnected;
- idle: no byte was passed on for the idle timeout;
- drained: the gateway stopped, and the grace was over;
- accessor_failed: the accessor did not answer, or ended in the middle.
"""
_RETRY_SECONDS: Final = 2


@frozen
class StreamLimits:
    """How many streams may be open at a time, and how long one may be without bytes."""

    per_caller: int = 32
    per_storage: int = 64
    idle_seconds: float = 900.0


class Streams:
    """The open streams of a gateway, and counters of those that ended.

    Guarantees:
        No caller and no storage has more streams than the limits say. The number of series is bounded.
    """

    def __init__(self, limits: StreamLimits) -> None:
        self.limits = limits
        self._by_caller: Counter[str] = Counter()
        self._by_storage: Counter[ObjectKey] = Counter()
        self.open = 0
        self.bytes = 0
        self.ended: Counter[str] = Counter(dict.fromkeys(ENDS, 0))

    @contextmanager
    def opened(self, caller: str, storage: ObjectKey) -> Iterator[None]:
        """Count a stream during the block.

        Raises:
            ApiError: 429, the caller or the storage has too many.
        """
        self._check(self._by_caller[caller], self.limits.per_caller, f"caller {caller}")
        self._check(self._by_storage[storage], self.limits.per_storage, f"storage {storage}")
        self._by_caller[caller] += 1
        self._by_storage[storage] += 1
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1
            _less_one(self._by_caller, caller)
            _less_one(self._by_storage, storage)

    def _check(self, current: int, most: int, of: str) -> None:
        if current >= most:
            message = f"{of} has {current} open streams: expected at most {most}; retry when one has ended"
            raise ApiError(429, "too_many_streams", message, headers={"Retry-After": str(_RETRY_SECONDS)})


def _less_one(counter: Counter[K], key: K) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
