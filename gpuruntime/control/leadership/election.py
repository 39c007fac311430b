"""Leader election over a Lease, with a fence around what a leader writes."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from random import Random
from typing import Final

from gpuruntime.control.leadership.election_terms import ElectionTiming, Term
from gpuruntime.control.leadership.fence import Fence
from gpuruntime.control.leadership.lease_hold import LeaseClient, LeaseHold
from gpuruntime.kube.errors import ConflictError, KubeError
from gpuruntime.meta.decode_errors import DecodeError
from gpuruntime.meta.timestamps import parse_timestamp

__all__ = ["Lead", "LeaseElection"]

Lead = Callable[[Term], Awaitable[None]]

_LOG = logging.getLogger(__name__)
_CLIENT_GO: Final = ElectionTiming()
_LONGEST_WAIT: Final = 1.2
# Too short to wait for, and too short to get an answer in. Clocks may disagree by that much about when a sleep ends.
_MOMENT: Final = 0.01
_FAILURES: Final = (KubeError, DecodeError, TimeoutError)


class LeaseElection:
    """One candidate for a lease; the others may be candidates of client-go.

    Guarantees:
        - The fence is open from the start of the last successful renewal for `timing.renew` seconds, and no longer.
          Others wait for `timing.lease` seconds from when they saw that renewal. No clocks are compared.
        - When the lease is lost, or cannot be renewed in time, the fence is shut first, then `lead` is cancelled and
          waited for; then the candidate stands again, like everybody else. Neither a fence that ran out nor a term that
          was lost is ever resumed: each call of `lead` has a term with a higher number.
        - The lease is released only after `lead` has ended; until then it is renewed, also during a shutdown.
        - No failure of the server or the wire ends `run`. No request outlives `timing.attempt`, and no renewal outlives
          the fence.
        - Whatever else the Lease holds stays as it is.

    Assumptions:
        The client has connections of its own and tries nothing again, so that nothing else can hold renewals up:
        `connect(..., retries=RetryPolicy.none())`. The fence is this election's own, and one `run` runs at a time.
        With a `keeper` whose writes pass the fence, a renewal that was held up past the deadline is not sent, either.

    Caveats:
        An identity should be one process's own: one that finds its identity in a lease that it does not remember waits
        until that lease has run out. A Lease object that somebody deletes protects its holder only from candidates
        that had seen it.
    """

    def __init__(
        self,
        client: LeaseClient,
        *,
        name: str,
        namespace: str,
        identity: str,
        fence: Fence,
        timing: ElectionTiming = _CLIENT_GO,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        random: Random | None = None,
        keeper: LeaseClient | None = None,
    ) -> None:
        if not identity:
            raise ValueError(f"election for lease {namespace}/{name}: expected an identity, got an empty one")
        self._identity = identity
        self._fence = fence
        self._timing = timing
        self._random = random or Random()
        self._about = {"lease": f"{namespace}/{name}", "identity": identity}
        self._renewed_at = -math.inf
        self._hold = LeaseHold(
            client,
            name=name,
            namespace=namespace,
            identity=identity,
            seconds=timing.lease,
            clock=fence.now,
            now=now,
            keeper=keeper,
        )

    @property
    def is_leader(self) -> bool:
        """Whether this process may write now."""
        return self._fence.remaining() > 0

    @property
    def leader(self) -> str:
        """Who held the lease when it was last seen; "" if nobody did."""
        return "" if self._hold.seen is None else self._hold.seen.holder

    @property
    def transitions(self) -> int:
        """How often the lease had changed hands when it was last seen."""
        return 0 if self._hold.seen is None else self._hold.seen.transitions

    @property
    def slow_paths(self) -> int:
        """How many renewals found the lease changed or gone, and had to read it first."""
        return self._hold.slow_paths

    @property
    def seconds_since_renewal(self) -> float:
        """The age of our last successful claim or renewal; infinite before the first."""
        return self._fence.now() - self._renewed_at

    async def run(self, lead: Lead) -> None:
        """Lead whenever the lease is ours, until `lead` returns or raises, or until cancelled.

        What `lead` raises is raised here, unless the lease was lost by then or we were cancelled: then it is logged.
        """
        try:
            while await self._serve(await self._win(), lead):
                self._hold.forget()
                _LOG.warning("lost the lease, standing again", extra=self._about)
        finally:
            self._fence.shut()
            await self._release()

    async def _win(self) -> Term:
        while True:
            try:
                async with asyncio.timeout(self._timing.attempt):
                    won = await self._hold.acquire()
            except _FAILURES as error:
                _LOG.warning("cannot stand for election, will retry", extra=self._about | {"error": _reason(error)})
            else:
                if won is not None and self._reopen(won):
                    _LOG.info("leading", extra=self._about | {"term": self.transitions})
                    return Term(self._identity, self.transitions, parse_timestamp(self._hold.claimed_at))
                if won is not None:
                    # This process was paused since: the lease may be somebody else's by now.
                    self._hold.forget()
            await asyncio.sleep(self._timing.retry * self._random.uniform(1.0, _LONGEST_WAIT))

    async def _serve(self, term: Term, lead: Lead) -> bool:
        """Whether the lease was lost; if not, `lead` has ended by itself."""
        failures: list[Exception] = []

        async def work() -> None:
            try:
                await lead(term)
            except Exception as error:  # noqa: BLE001 - raised or logged below, once it is known why it ended
                failures.append(error)

        lost = False
        try:
            # Two groups, one in the other: a cancelled `lead` may still write, so renewals go on until it has ended.
            async with asyncio.TaskGroup() as keepers:
                try:
                    async with asyncio.TaskGroup() as workers:
                        working = workers.create_task(work())
                        keeping = keepers.create_task(self._keep(working))
                finally:
                    lost = self._fence.remaining() <= 0
                keeping.cancel()
        except asyncio.CancelledError:
            if lost:
                # Another replica may hold the lease by now: there is nothing to release.
                self._hold.forget()
            self._log_failures(failures)
            raise
        if lost:
            self._log_failures(failures)
            return True
        if working.cancelled():
            raise RuntimeError(f"the work of leader {self._identity!r} was cancelled by somebody who does not own it")
        if failures:
            raise failures[0]
        return False

    async def _keep(self, working: asyncio.Task[None]) -> None:
        try:
            await self._renew_until_lost()
        finally:
            self._fence.shut()
        working.cancel()

    async def _renew_until_lost(self) -> None:
        due = self._renewed_at + self._timing.retry
        while (left := self._fence.remaining()) > _MOMENT:
            started = self._fence.now()
            if due - started > _MOMENT:
                await asyncio.sleep(min(due - started, left))
                continue
            due = started + self._timing.retry
            try:
                async with asyncio.timeout(min(self._timing.attempt, left)):
                    kept = await self._hold.renew()
            except _FAILURES as error:
                failure = {"error": _reason(error), "seconds_left": round(self._fence.remaining(), 2)}
                _LOG.warning("cannot renew the lease, will retry", extra=self._about | failure)
                continue
            # Those who write saw a fence that ran out: an answer that comes after that cannot mend it.
            if not kept or self._fence.remaining() <= 0 or not self._reopen(started):
                return

    def _reopen(self, started: float) -> bool:
        """Move the fence on after a write of ours that began then; whether that leaves any time."""
        self._renewed_at = started
        self._fence.open_until(started + self._timing.renew)
        return self._fence.remaining() > 0

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(self._timing.renew):
                await self._release_after_conflicts()
        except _FAILURES as error:
            failure = {"error": _reason(error)}
            _LOG.warning("cannot release the lease, others wait until it runs out", extra=self._about | failure)
        finally:
            # A release without an answer may still arrive, and free the lease for others: it is ours no more.
            self._hold.forget()

    async def _release_after_conflicts(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._timing.attempt):
                    return await self._hold.release()
            except ConflictError:
                await asyncio.sleep(self._random.uniform(0, self._timing.retry / 4))

    def _log_failures(self, failures: list[Exception]) -> None:
        for failure in failures:
            _LOG.error("work failed after it was told to stop", exc_info=failure, extra=self._about)


def _reason(error: Exception) -> str:
    """Why a try failed; a time that is over says nothing by itself."""
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
