"""Latencies of requests: sent at times that do not depend on the responses, or one after another."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from random import Random

from attrs import frozen

from hack.benchmarks.creating import ObjectsError

__all__ = ["Latencies", "arrivals", "one_by_one", "sent_at"]

Request = Callable[[int], Awaitable[None]]


@frozen
class Latencies:
    """The latencies of requests, in seconds."""

    seconds: tuple[float, ...]

    @property
    def p50(self) -> float:
        """In milliseconds."""
        return statistics.median(self.seconds) * 1000

    @property
    def p90(self) -> float:
        """In milliseconds: 10 % of the requests are slower."""
        return self._slowest_but(90)

    @property
    def p95(self) -> float:
        """In milliseconds: 5 % of the requests are slower."""
        return self._slowest_but(95)

    @property
    def p99(self) -> float:
        """In milliseconds: 1 % of the requests are slower."""
        return self._slowest_but(99)

    def _slowest_but(self, percent: int) -> float:
        return sorted(self.seconds)[max(0, -(-len(self.seconds) * percent // 100) - 1)] * 1000


def arrivals(number: int, rate: float, seed: int) -> tuple[float, ...]:
    """The arrival times of independent requests: a Poisson process with `rate` requests per second."""
    random = Random(seed)

    def times() -> Iterator[float]:
        at = 0.0
        for _ in range(number):
            yield at
            at += random.expovariate(rate)

    return tuple(times())


async def sent_at(times: Sequence[float], *requests: Request) -> tuple[Latencies, ...]:
    """Send every request once at each of the times; a delay before sending counts as latency.

    Raises:
        ObjectsError: one of them failed.
    """
    begin = time.perf_counter()
    spent: list[list[float]] = [[] for _ in requests]

    async def send(number: int, at: float, request: Request, into: list[float]) -> None:
        await asyncio.sleep(max(0.0, begin + at - time.perf_counter()))
        await request(number)
        into.append(time.perf_counter() - begin - at)

    try:
        async with asyncio.TaskGroup() as group:
            for number, at in enumerate(times):
                for request, into in zip(requests, spent, strict=True):
                    group.create_task(send(number, at, request, into))
    except ExceptionGroup as failed:
        raise ObjectsError(f"a request failed: {failed.exceptions[0]}") from failed
    return tuple(Latencies(tuple(some)) for some in spent)


async def one_by_one(number: int, request: Request) -> Latencies:
    """Send `number` requests, each after the response to the one before."""
    spent = []
    for index in range(number):
        began = time.perf_counter()
        await request(index)
        spent.append(time.perf_counter() - began)
    return Latencies(tuple(spent))
