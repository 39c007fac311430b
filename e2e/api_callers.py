"""Callers of several replicas who do what clients should: what failed they send again, to whoever answers."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import aiohttp
from attrs import field, frozen

from e2e.api_processes import Replica

__all__ = ["AWAY", "Answer", "Callers"]

AWAY = (aiohttp.ClientError, ConnectionError, TimeoutError)
"""What a caller sees of a process that is not there, or is not there any more."""
_LATER = frozenset({503, 504})
_PAUSE_SECONDS = 0.2


@frozen
class Answer:
    """What a replica said."""

    replica: Replica
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: Any

    @property
    def data(self) -> Any:
        assert "data" in self.body, self
        return self.body["data"]


@frozen
class Callers:
    """Send requests to replicas. All chance is of one seed."""

    session: aiohttp.ClientSession = field(repr=False)
    replicas: Sequence[Replica]
    random: Random

    async def once(self, replica: Replica, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """What one replica says; in the names of headers, _ stands for -.

        Raises:
            Exception: one of AWAY.
        """
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        url = f"{replica.url}/api/v1{path}"
        async with self.session.request(method, url, json=body, headers=sent) as response:
            return Answer(replica, response.status, response.headers, await response.json())

    async def insist(
        self, method: str, path: str, body: Any = None, *, but: Replica | None = None, **headers: str
    ) -> Answer:
        """What somebody says at last who can do it now: at first not `but`, if there is another."""
        replica = self.random.choice([one for one in self.replicas if one is not but])
        while True:
            try:
                answer = await self.once(replica, method, path, body, **headers)
            except AWAY:
                pass
            else:
                if answer.status not in _LATER:
                    return answer
            await asyncio.sleep(_PAUSE_SECONDS)
            replica = self.random.choice(self.replicas)
