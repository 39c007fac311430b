"""Clients who order, claim and look, all the time: each request that fails is sent once again, and no more."""

import asyncio
import itertools
from typing import Any, Final

import aiohttp
from attrs import define, field

from e2e.installation import Installation
from e2e.stories.orders import SMALL, order

__all__ = ["Load"]

_FAILED: Final = frozenset({500, 502, 503, 504})
_AWAY: Final = (aiohttp.ClientError, ConnectionError, TimeoutError)
_PAUSE_SECONDS: Final = 0.1
_MOST_ORDERS: Final = 60


@define
class Load:
    """What clients asked for, and what they were told.

    `told` are the UIDs by operationID; `failed` the requests that failed twice, `cured` the number of those that failed
    once.
    """

    installation: Installation
    mark: str
    told: dict[str, str] = field(factory=dict)
    reads: int = 0
    cured: int = 0
    failed: list[str] = field(factory=list)
    wrong: list[str] = field(factory=list)
    _numbers: "itertools.count[int]" = field(factory=itertools.count)

    async def client(self) -> None:
        """Order one unit after the other, then the same again, until cancelled; from stock, or without.

        Connections are kept.
        """
        headers = {"Authorization": f"Bearer {self.installation.api.token}"}
        patience = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(headers=headers, timeout=patience) as session:
            for number in self._numbers:
                name = f"load-{number % _MOST_ORDERS}-{self.mark}"
                body = order(name, f"stock-{self.mark}") if number % 2 else self._cold(name)
                made = await self._send(session, "POST", "/gpu-units", body)
                if made is not None:
                    await self._look(session, made, body)
                await asyncio.sleep(_PAUSE_SECONDS)

    def _cold(self, name: str) -> dict[str, Any]:
        return order(name, f"cold-{self.mark}", coldStart=True, **SMALL)

    async def _look(self, session: aiohttp.ClientSession, made: tuple[int, Any], body: dict[str, Any]) -> None:
        status, answer = made
        if status not in {200, 201}:
            self.wrong.append(f"{body['name']}: {status} {answer}")
            return
        uid = answer["data"]["uid"]
        if self.told.setdefault(body["operationID"], uid) != uid:
            self.wrong.append(f"{body['name']} was {self.told[body['operationID']]}, is {uid}")
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
            except _AWAY as error:
                words.append(f"{type(error).__name__}: {error}")
            else:
                if response.status not in _FAILED:
                    self.cured += bool(words)
                    return response.status, answer
                words.append(f"{response.status} {answer}")
        self.failed.append(f"{method} {path}: {words}")
        return None
