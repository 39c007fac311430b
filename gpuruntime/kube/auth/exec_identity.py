"""The identity that a credential plugin issues, renewed before it ends."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from attrs import frozen

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.exec_plugin import ExecPlugin, Issued, run
from gpuruntime.kube.auth.identity import Identity
from gpuruntime.kube.singleflight import Singleflight

__all__ = ["ExecIdentity"]

log = logging.getLogger(__name__)

_LONGEST_MARGIN = timedelta(seconds=30)
_HOLD = 1.0


def _utc_now() -> datetime:
    return datetime.now(UTC)


@frozen
class _Failure:
    error: CredentialsError
    until: float


class ExecIdentity:
    """Runs a plugin when there is no identity, when the identity is about to end, and when the server refused it.

    Guarantees: however many ask at a time, the plugin runs once, and goes on while one of them waits. It is renewed
    30 s or a tenth of its life before it ends, whichever is shorter. A failure is an error for everybody who asks in
    the next second, unless the previous identity has neither ended nor been refused: then that one is used. Refusals
    run the plugin at most once a second, and so does a plugin that issues what has already ended.
    """

    def __init__(self, plugin: ExecPlugin, *, now: Callable[[], datetime] = _utc_now) -> None:
        self._plugin = plugin
        self._now = now
        self._renewal = Singleflight(self._renew)
        self._issued: Issued | None = None
        self._renew_at: datetime | None = None
        self._refused = False
        self._started_at = float("-inf")
        self._forced_at = float("-inf")
        self._failure: _Failure | None = None

    async def current(self) -> Identity:
        """The identity to use now.

        Raises:
            CredentialsError: the plugin failed, now or within the last second.
        """
        if self._issued is not None and not self._due():
            return self._issued.identity
        try:
            return (await self._renewed()).identity
        except CredentialsError:
            if self._issued is None or not self._usable(self._issued):
                raise
            return self._issued.identity

    def invalidate(self, used: Identity) -> None:
        """The server refused `used`. Has no effect if it was replaced since or a refusal renewed it a second ago."""
        now = asyncio.get_running_loop().time()
        if self._issued is not None and self._issued.identity == used and now >= self._forced_at + _HOLD:
            self._refused = True
            self._forced_at = now

    def _due(self) -> bool:
        if self._refused:
            return True
        if self._renew_at is None or self._now() < self._renew_at:
            return False
        return asyncio.get_running_loop().time() >= self._started_at + _HOLD

    def _usable(self, issued: Issued) -> bool:
        return not self._refused and (issued.expires is None or self._now() < issued.expires)

    async def _renewed(self) -> Issued:
        failure = self._failure
        if failure is not None and asyncio.get_running_loop().time() < failure.until:
            raise CredentialsError(str(failure.error)) from failure.error
        return await self._renewal.join()

    async def _renew(self) -> Issued:
        loop = asyncio.get_running_loop()
        self._started_at = loop.time()
        try:
            issued = await run(self._plugin)
        except CredentialsError as error:
            self._failure = _Failure(error, until=loop.time() + _HOLD)
            if self._issued is not None and self._usable(self._issued):
                log.warning("plugin failed, the previous identity stays in use", extra={"error": str(error)})
            raise
        self._issued = issued
        self._renew_at = self._renewal_time(issued)
        self._refused = False
        self._failure = None
        return issued

    def _renewal_time(self, issued: Issued) -> datetime | None:
        if issued.expires is None:
            return None
        life = max(issued.expires - self._now(), timedelta())
        return issued.expires - min(_LONGEST_MARGIN, life / 10)
