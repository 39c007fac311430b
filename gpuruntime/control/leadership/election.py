"""Leader election by a Lease, with a fence for the writes of the leader."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from random import Random
from typing import Final

from gpuruntime.control.leadership.election_terms import ElectionTiming, Term
from gpuruntime.control.leadership.fence import Fence
from gpuruntime.control.leadership.lease_lock import LeaseClient, LeaseLock
from gpuruntime.kube.errors import ConflictError, KubeError
from gpuruntime.meta.decode_errors import DecodeError
from gpuruntime.meta.timestamps import parse_timestamp

__all__ = ["Lead", "LeaseElection"]

Lead = Callable[[Term], Awaitable[None]]

_LOG = logging.getLogger(__name__)
_CLIENT_GO: Final = ElectionTiming()
_LONGEST_WAIT: Final = 1.2
# Too short to wait for, and too short for a response. Clocks may disagree by that much about when a sleep ends.
_MOMENT: Final = 0.01
_FAILURES: Final = (KubeError, DecodeError, TimeoutError)


class LeaseElection:
    """One candidate for a lease; other candidates may be client-go's.

    Guarantees:
        - The fence is open from the start of the last successful renewal for `timing.renew` seconds, and no longer.
          Others wait for `timing.lease` seconds from when they saw that renewal. No clocks are compared.
        - When the lease is lost, or cannot be renewed in time, the fence is shut first, then `lead` is cancelled and
          awaited; then this is a candidate again. Neither an expired fence nor a lost term is ever resumed: each call
          of `lead` has a term with a higher number.
        - The lease is released only after `lead` has ended; until then it is renewed, also during a shutdown.
        - No failure of the server or the network ends `run`. No request outlives `timing.attempt`, and no renewal
          outlives the fence.
        - All other fields of the Lease are preserved.

    Assumptions:
        The client has its own connections and does not retry, so that nothing else can delay renewals:
        `connect(..., retries=RetryPolicy.none())`. The fence belongs to this election, and one `run` runs at a time.
        With a `renew_client` whose writes pass the fence, no renewal is sent after the deadline, either.

    Caveats:
        An identity must be unique to a process: a process that finds its identity in a lease that it did not acquire
        waits until that lease has expired. A Lease object that is deleted protects its holder only from candidates
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
        renew_client: LeaseClient | None = None,
    ) -> None:
        if not identity:
            raise ValueError(f"election for lease {namespace}/{name}: expected an identity, got an empty string")
        self._identity = identity
        self._fence = fence
        self._timing = timing
        self._random = random or Random()
        self._about = {"lease": f"{namespace}/{name}", "identity": identity}
        self._renewed_at = -math.inf
        self._lock = LeaseLock(
            client,
            name=name,
            namespace=namespace,
            identity=identity,
            seconds=timing.lease,
            clock=fence.now,
            now=now,
            renew_client=renew_client,
        )

    @property
    def is_leader(self) -> bool:
        """Whether this process may write now."""
        return self._fence.remaining() > 0

    @property
    def leader(self) -> str:
        """The holder of the lease when it was last observed; "" if it had none."""
        return "" if self._lock.seen is None else self._lock.seen.holder

    @property
    def transitions(self) -> int:
        """The transitions of the lease when it was last observed."""
        return 0 if self._lock.seen is None else self._lock.seen.transitions

    @property
    def slow_paths(self) -> int:
        """The number of renewals that found the lease changed or deleted, and had to read it first."""
        return self._lock.slow_paths

    @property
    def seconds_since_renewal(self) -> float:
        """The age of our last successful acquisition or renewal; infinite before the first."""
        return self._fence.now() - self._renewed_at

    async def run(self, lead: Lead) -> None:
        """Call `lead` whenever the lease is acquired, until `lead` returns or raises, or until cancelled.

        An exception of `lead` is raised here; after a lost lease or a cancellation it is only logged.
        """
        try:
            while await self._serve(await self._win(), lead):
                self._lock.forget()
                _LOG.warning("lost the lease, candidate again", extra=self._about)
        finally:
            self._fence.shut()
            await self._release()

    async def _win(self) -> Term:
        following = ""
        while True:
            try:
                async with asyncio.timeout(self._timing.attempt):
                    won = await self._lock.acquire()
            except _FAILURES as error:
                _LOG.warning("cannot acquire the lease, will retry", extra=self._about | {"error": _reason(error)})
            else:
                if won is not None and self._reopen(won):
                    _LOG.info("leading", extra=self._about | {"term": self.transitions})
                    return Term(self._identity, self.transitions, parse_timestamp(self._lock.acquired_at))
                if won is not None:
                    # This process was paused since: another replica may hold the lease by now.
                    self._lock.forget()
                elif self.leader not in {"", following}:
                    following = self.leader
                    _LOG.info("standing by", extra=self._about | {"leader": following})
            await asyncio.sleep(self._timing.retry * self._random.uniform(1.0, _LONGEST_WAIT))

    async def _serve(self, term: Term, lead: Lead) -> bool:
        """Run one term; returns whether the lease was lost, or False if `lead` returned."""
        failures: list[Exception] = []

        async def work() -> None:
            try:
                await lead(term)
            except Exception as error:  # noqa: BLE001 - raised or logged below, once it is known why it ended
                failures.append(error)

        lost = False
        try:
            # Two nested groups: a cancelled `lead` may still write, so renewals go on until it has ended.
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
                self._lock.forget()
            self._log_failures(failures)
            raise
        if lost:
            self._log_failures(failures)
            return True
        if working.cancelled():
            raise RuntimeError(f"the work of leader {self._identity!r} was cancelled from outside: cancel `run`")
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
                    kept = await self._lock.renew()
            except _FAILURES as error:
                failure = {"error": _reason(error), "seconds_left": round(self._fence.remaining(), 2)}
                _LOG.warning("cannot renew the lease, will retry", extra=self._about | failure)
                continue
            # Writers have seen an expired fence: a response after that cannot reopen it.
            if not kept or self._fence.remaining() <= 0 or not self._reopen(started):
                return

    def _reopen(self, started: float) -> bool:
        """Extend the fence after a write of ours that began at `started`; returns whether any time is left."""
        self._renewed_at = started
        self._fence.open_until(started + self._timing.renew)
        return self._fence.remaining() > 0

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(self._timing.renew):
                await self._release_after_conflicts()
        except _FAILURES as error:
            failure = {"error": _reason(error)}
            _LOG.warning("cannot release the lease, it will expire", extra=self._about | failure)
        finally:
            # A release without a response may still arrive and free the lease, so it is no longer ours.
            self._lock.forget()

    async def _release_after_conflicts(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._timing.attempt):
                    return await self._lock.release()
            except ConflictError:
                await asyncio.sleep(self._random.uniform(0, self._timing.retry / 4))

    def _log_failures(self, failures: list[Exception]) -> None:
        for failure in failures:
            _LOG.error("work failed while it was stopping", exc_info=failure, extra=self._about)


def _reason(error: Exception) -> str:
    """Why an attempt failed; a TimeoutError has no message of its own."""
    return str(error) or ("no response in time" if isinstance(error, TimeoutError) else type(error).__name__)
