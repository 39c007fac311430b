"""A constant load of clients that create and read units; a failed request is retried once."""

import asyncio
import itertools
from typing import Any, Final

import aiohttp
from attrs import define, field

from e2e.installation import Installation
from e2e.stories.orders import SMALL, order

__all__ = ["Load"]

_FAILED: Final = frozenset({500, 502, 503, 504})
_CONNECTION_ERRORS: Final = (aiohttp.ClientError, ConnectionError, TimeoutError)
_PAUSE_SECONDS: Final = 0.1
_MOST_ORDERS: Final = 60


@define
class Load:
    """The results of the clients.

    `uids` has the UID of each unit by operationID; `failed` the requests that failed twice; `retried` the number of
    requests that failed once.
    """

    installation: Installation
    suffix: str
    uids: dict[str, str] = field(factory=dict)
    reads: int = 0
    retried: int = 0
    failed: list[str] = field(factory=list)
    wrong: list[str] = field(factory=list)
    _numbers: "itertools.count[int]" = field(factory=itertools.count)

    async def reader(self, *, keep_alive: bool) -> None:
        """Read the list of units until cancelled, over one connection or over a new one for each request."""
        headers = {"Authorization": f"Bearer {self.installation.api.token}"}
        connector = aiohttp.TCPConnector(force_close=not keep_alive)
        async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
            while True:
                found = await self._send(session, "GET", "/gpu-units?limit=1", None)
                if found is not None and found[0] != 200:
                    self.wrong.append(f"GET: {found}")
                self.reads += 1

    async def client(self) -> None:
        """Create units one by one, from stock and cold, then the same again, until cancelled.

        Connections are kept alive.
        """
        headers = {"Authorization": f"Bearer {self.installation.api.token}"}
        patience = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(headers=headers, timeout=patience) as session:
            for number in self._numbers:
                name = f"load-{number % _MOST_ORDERS}-{self.suffix}"
                body = order(name, f"stock-{self.suffix}") if number % 2 else self._cold(name)
                made = await self._send(session, "POST", "/gpu-units", body)
                if made is not None:
                    await self._check(session, made, body)
                await asyncio.sleep(_PAUSE_SECONDS)

    def _cold(self, name: str) -> dict[str, Any]:
        return order(name, f"cold-{self.suffix}", coldStart=True, **SMALL)

    async def _check(self, session: aiohttp.ClientSession, made: tuple[int, Any], body: dict[str, Any]) -> None:
        status, answer = made
        if status not in {200, 201}:
            self.wrong.append(f"{body['name']}: {status} {answer}")
            return
        uid = answer["data"]["uid"]
        if self.uids.setdefault(body["operationID"], uid) != uid:
            self.wrong.append(f"{body['name']} was {self.uids[body['operationID']]}, is {uid}")
        for _ in range(2):
            found = await self._send(session, "GET", f"/gpu-units/{body['name']}", None)
            self.reads += 1
            if found is not None and (found[0] != 200 or found[1]["data"]["uid"] != uid):
                self.wrong.append(f"{body['name']} was {uid}, is {found}")

    async def _send(self, session: aiohttp.ClientSession, method: str, path: str, body: Any) -> tuple[int, Any] | None:
        words: list[str] = []
        for _ in range(2):
            try:
                async with session.request(method, f"{self.installation.api.url}/api/v1{path}", json=body) as response:
                    answer = await response.json()
            except _CONNECTION_ERRORS as error:
                words.append(f"{type(error).__name__}: {error}")
            else:
                if response.status not in _FAILED:
                    self.retried += bool(words)
                    return response.status, answer
                words.append(f"{response.status} {answer}")
        self.failed.append(f"{method} {path}: {words}")
        return None
