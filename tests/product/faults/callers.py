"""Callers that send each invocation until it is accepted, with the same ID, to any API; and how they all ended."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

import aiohttp
from attrs import frozen

__all__ = ["Callers", "Order", "ends"]

_PAUSE_SECONDS: Final = 0.1
_WAIT_SECONDS: Final = 30
_TERMINAL: Final = frozenset({"succeeded", "failed", "expired", "cancelled", "dead_lettered"})


@frozen
class Order:
    """An invocation that a caller wants."""

    function: str
    number: int
    seconds: float

    @property
    def id(self) -> str:
        return f"{self.function}-{self.number}"


class Callers:
    """Callers of several APIs. One that does not answer, or answers 5xx, is asked again, or another one is."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = itertools.cycle(f"{url}/api/v1/serverless/invocations" for url in urls)
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_WAIT_SECONDS + 30))
        self.duplicates = 0
        """Requests that were answered as duplicates: the answer of an earlier one was lost."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(self, orders: Iterable[Order], at_once: int = 32) -> None:
        """Send all, `at_once` at a time; returns when each was accepted."""
        gate = asyncio.Semaphore(at_once)

        async def one(order: Order) -> None:
            async with gate:
                body = {
                    "serverlessRequestID": order.function,
                    "invocationID": order.id,
                    "payload": {"seconds": order.seconds, "number": order.number},
                }
                answer = await self._ask("POST", "", json=body)
                self.duplicates += bool(answer["duplicate"])

        async with asyncio.TaskGroup() as group:
            for order in orders:
                group.create_task(one(order))

    async def complete(self, orders: Iterable[Order], at_once: int) -> dict[str, dict[str, Any]]:
        """Send all, `at_once` at a time, each of which waits for its end; returns how they ended, by ID."""
        gate, found = asyncio.Semaphore(at_once), dict[str, dict[str, Any]]()

        async def one(order: Order) -> None:
            async with gate:
                await self.send([order])
                found[order.id] = await self.end(order)

        async with asyncio.TaskGroup() as group:
            for order in orders:
                group.create_task(one(order))
        return found

    async def end(self, order: Order) -> dict[str, Any]:
        """The status of an invocation when it has ended."""
        query = f"/{order.id}?serverlessRequestID={order.function}&wait={_WAIT_SECONDS}"
        while True:
            found: dict[str, Any] = await self._ask("GET", query)
            if found["state"] in _TERMINAL:
                return found

    async def listed(self, function: str) -> Counter[str]:
        """How often each ended invocation of a function is listed."""
        found, cursor = Counter[str](), ""
        while True:
            query = f"?serverlessRequestID={function}&limit=500" + (f"&cursor={cursor}" if cursor else "")
            async with self._session.get(next(self._urls) + query) as response:
                if response.status != 200:
                    return found
                page = await response.json()
            found.update(item["invocationID"] for item in page["data"])
            cursor = page.get("next") or ""
            if not cursor:
                return found

    async def _ask(self, method: str, path: str, **parts: Any) -> Any:
        while True:
            try:
                async with self._session.request(method, next(self._urls) + path, **parts) as response:
                    answer = await response.json()
                    if response.status < 500:
                        assert response.status in {200, 202}, answer
                        return answer["data"]
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(_PAUSE_SECONDS)  # an API that was killed has no event to await


async def ends(callers: Callers, orders: Sequence[Order]) -> dict[str, dict[str, Any]]:
    """How each order ended, by ID."""
    found = await asyncio.gather(*map(callers.end, orders))
    return {order.id: end for order, end in zip(orders, found, strict=True)}
