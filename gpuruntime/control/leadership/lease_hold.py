"""One candidate's hand on a Lease: to take it, to keep it, to let it go. When to do what is the election's business."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Protocol

from gpuruntime.control.leadership.lease_record import (
    Observation,
    first_claim,
    is_claim,
    observe,
    recreated,
    released,
    renewed,
    taken_over,
)
from gpuruntime.kube.builtin.coordination import Lease
from gpuruntime.kube.errors import ConflictError, NotFoundError

__all__ = ["LeaseClient", "LeaseHold"]


class LeaseClient(Protocol):
    """What an election needs of a client. Errors are those of `gpuruntime.kube.Client`."""

    async def get(self, form: type[Lease], name: str, namespace: str) -> Lease:
        """See `Client.get`."""

    async def create(self, obj: Lease) -> Lease:
        """See `Client.create`."""

    async def update(self, obj: Lease) -> Lease:
        """See `Client.update`."""


class LeaseHold:
    """Reads and writes one Lease for one identity. `keeper` is the client that renews, if that is another one.

    Guarantees:
        Every write replaces what was read before it, or fails: nobody's claim is overwritten unseen. A call that failed
        or was cancelled can be repeated, whatever became of its writes.

    Caveats:
        A claim is known by its acquire time. A lease with the identity of this candidate that it does not remember is
        somebody else's.
    """

    def __init__(
        self,
        client: LeaseClient,
        *,
        name: str,
        namespace: str,
        identity: str,
        seconds: int,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        keeper: LeaseClient | None = None,
    ) -> None:
        self._client = client
        self._keeper = keeper or client
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._seconds = seconds
        self._clock = clock
        self._now = now
        self._mine: Lease | None = None
        self._claim_began = 0.0
        self.seen: Observation | None = None
        self.claimed_at = ""
        self.slow_paths = 0

    async def acquire(self) -> float | None:
        """Take the lease unless somebody holds it.

        Returns:
            When, by the local clock, we began to write the claim by which the lease is ours; None if it is not.
        """
        lease = await self._read()
        try:
            if lease is not None and self._is_mine(lease):
                # The answer to the claim was lost. To write once more instead would keep the lease from everybody for
                # as long as answers get lost.
                self._mine = lease
            elif self.seen is not None and self.seen.is_held(self._clock(), self._seconds):
                # Also if the object is gone: its holder does not know yet.
                self.forget()
                return None
            elif lease is not None:
                await self._claim(self._client.update, taken_over(lease, self._identity, self._seconds, self._now()))
            else:
                number = 0 if self.seen is None else self.seen.transitions + 1
                claim = first_claim(
                    self._name, self._namespace, self._identity, self._seconds, self._now(), transitions=number
                )
                await self._claim(self._client.create, claim)
        except ConflictError:
            return None  # somebody was faster
        return self._claim_began

    async def renew(self) -> bool:
        """Give a sign of life; false if the lease is not ours any more. Without a hitch it takes one request."""
        known = self._mine
        if known is not None:
            try:
                self._note(await self._keeper.update(renewed(known, self._seconds, self._now())))
            except (ConflictError, NotFoundError):
                self.slow_paths += 1
            else:
                return True
        lease = await self._read()
        if lease is not None and self._is_mine(lease):
            self._note(await self._keeper.update(renewed(lease, self._seconds, self._now())))
            return True
        if lease is None and known is not None:
            # Deleted under us: nobody who knew the lease takes over before it would have run out.
            self._note(await self._keeper.create(renewed(recreated(known), self._seconds, self._now())))
            return True
        self.forget()
        return False

    async def release(self) -> None:
        """Let the lease go if it is ours.

        Raises:
            ConflictError: somebody else changed it at the same time; try again.
        """
        if not self.claimed_at:
            return
        # Without an answer to our last write we have to look what became of it.
        lease, self._mine = self._mine or await self._read(), None
        if lease is not None and self._is_mine(lease):
            with suppress(NotFoundError):
                freed = await self._client.update(released(lease, self._now()))
                self.seen = observe(self.seen, freed, self._clock())
        self.forget()

    def forget(self) -> None:
        """Take our claim for somebody else's from now on."""
        self.claimed_at, self._mine = "", None

    async def _read(self) -> Lease | None:
        try:
            lease = await self._client.get(Lease, self._name, self._namespace)
        except NotFoundError:
            return None
        self.seen = observe(self.seen, lease, self._clock())
        return lease

    async def _claim(self, write: Callable[[Lease], Awaitable[Lease]], lease: Lease) -> None:
        # Noted before it is sent: the lease may be ours although the answer never comes.
        self.claimed_at, self._claim_began, self._mine = lease.spec.acquire_time or "", self._clock(), None
        self._note(await write(lease))

    def _note(self, written: Lease) -> None:
        self._mine = written
        self.seen = observe(self.seen, written, self._clock())

    def _is_mine(self, lease: Lease) -> bool:
        return is_claim(lease, self._identity, self.claimed_at)
