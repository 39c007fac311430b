"""Admits no more invocations when the storage of NATS is nearly full, so that results of those that run still fit."""

import asyncio
from typing import Final

from gpuruntime.api.invocations import RESULTS_STREAM
from gpuruntime.bus import BusError, JetStream
from gpuruntime.service.errors import ResultStorageFullError

__all__ = ["LARGEST_SHARE", "StorageGuard"]

LARGEST_SHARE: Final = 0.85
"""The share of the storage above which nothing is admitted."""
_LOOK_SECONDS: Final = 5.0


class StorageGuard:
    """Looks every five seconds at most, when it is asked, and remembers what it saw.

    It knows the limit of the stream of results and that of the account, where the server has them. Without either, a
    full disk shows when a request is stored.
    """

    def __init__(self, jetstream: JetStream, largest_share: float = LARGEST_SHARE) -> None:
        self._jetstream = jetstream
        self._largest_share = largest_share
        self._looked = float("-inf")
        self._full = ""

    async def check(self) -> None:
        """Return if there is room.

        Raises:
            ResultStorageFullError: there is not.
        """
        now = asyncio.get_running_loop().time()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            await self._look()
        if self._full:
            raise ResultStorageFullError(f"{self._full}: no more invocations are accepted until results expire")

    async def _look(self) -> None:
        try:
            account = await self._jetstream.account_info()
            results = await self._jetstream.stream_info(RESULTS_STREAM)
        except BusError:
            return  # what follows says so
        limits = [("the storage of NATS", account.storage, account.max_storage)]
        if results is not None:
            limits.append(("the stream of results", results.bytes, int(results.config.get("max_bytes", -1))))
        self._full = next(
            (
                f"{what} is {used / most:.0%} full"
                for what, used, most in limits
                if most > 0 and used >= most * self._largest_share
            ),
            "",
        )
