"""The identity that an exec credential plugin issues, renewed before it expires."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from attrs import frozen

from gpuruntime.aio.singleflight import Singleflight
from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.exec_plugin import ExecPlugin, Issued, run
from gpuruntime.kube.auth.identity import Identity

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
    """Runs a plugin when there is no identity, when the identity is about to expire, and when the server refused it.

    Guarantees: concurrent callers share one run of the plugin, which goes on while one of them waits. The identity is
    renewed 30 s or a tenth of its lifetime before it expires, whichever is shorter. A failure is raised to all callers
    of the next second, unless the previous identity is still valid: then that one is used. The plugin runs at most
    once a second, also if the server refuses each identity or each has expired already.
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
        """Note that the server refused `used`; ignored if it was replaced since, or renewed within the last second."""
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
        return await self._renewal.do()

    async def _renew(self) -> Issued:
        loop = asyncio.get_running_loop()
        self._started_at = loop.time()
        try:
            issued = await run(self._plugin)
        except CredentialsError as error:
            self._failure = _Failure(error, until=loop.time() + _HOLD)
            if self._issued is not None and self._usable(self._issued):
                log.warning("exec plugin failed, keeping the previous identity", extra={"error": str(error)})
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
