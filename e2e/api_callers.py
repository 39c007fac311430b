"""Clients of several API replicas that retry failed requests, on any replica."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import aiohttp
from attrs import field, frozen

from e2e.api_processes import Replica

__all__ = ["CONNECTION_ERRORS", "Answer", "Callers"]

CONNECTION_ERRORS = (aiohttp.ClientError, ConnectionError, TimeoutError)
"""The errors of a client whose replica is down or goes down."""
_RETRY_STATUSES = frozenset({503, 504})
_PAUSE_SECONDS = 0.2


@frozen
class Answer:
    """The response of a replica."""

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
    """Sends requests to replicas, chosen at random with a fixed seed."""

    session: aiohttp.ClientSession = field(repr=False)
    replicas: Sequence[Replica]
    random: Random

    async def once(self, replica: Replica, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request once, to one replica; in the names of headers, _ stands for -.

        Raises:
            Exception: one of CONNECTION_ERRORS.
        """
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        url = f"{replica.url}/api/v1{path}"
        async with self.session.request(method, url, json=body, headers=sent) as response:
            return Answer(replica, response.status, response.headers, await response.json())

    async def send_until_answered(
        self, method: str, path: str, body: Any = None, *, avoid: Replica | None = None, **headers: str
    ) -> Answer:
        """Retry until a replica answers with another status than 503 or 504; the first attempt avoids the replica
        `avoid`.
        """
        replica = self.random.choice([one for one in self.replicas if one is not avoid])
        while True:
            try:
                answer = await self.once(replica, method, path, body, **headers)
            except CONNECTION_ERRORS:
                pass
            else:
                if answer.status not in _RETRY_STATUSES:
                    return answer
            await asyncio.sleep(_PAUSE_SECONDS)
            replica = self.random.choice(self.replicas)
