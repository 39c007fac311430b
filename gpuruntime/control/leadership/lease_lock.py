"""The Lease as a lock for one candidate: acquire, renew, release. The election decides when."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Protocol

from gpuruntime.control.leadership.lease_record import (
    Observation,
    is_acquired_by,
    new_lease,
    observe,
    recreated,
    released,
    renewed,
    taken_over,
)
from gpuruntime.kube.builtin.coordination import Lease
from gpuruntime.kube.errors import ConflictError, NotFoundError

__all__ = ["LeaseClient", "LeaseLock"]


class LeaseClient(Protocol):
    """The client methods that an election uses. Errors are those of `gpuruntime.kube.Client`."""

    async def get(self, form: type[Lease], name: str, namespace: str) -> Lease:
        """See `Client.get`."""

    async def create(self, obj: Lease) -> Lease:
        """See `Client.create`."""

    async def update(self, obj: Lease) -> Lease:
        """See `Client.update`."""


class LeaseLock:
    """Reads and writes one Lease for one identity. `renew_client` is the client that renews, if that is another one.

    Guarantees:
        Every write replaces the version that was read before it, or fails: no acquisition of another candidate is
        overwritten unseen. A call that failed or was cancelled can be repeated, whether its write was executed or not.

    Caveats:
        An acquisition is recognised by its acquire time. A lease with the identity of this candidate and another
        acquire time is that of another process.
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
        renew_client: LeaseClient | None = None,
    ) -> None:
        self._client = client
        self._renew_client = renew_client or client
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._seconds = seconds
        self._clock = clock
        self._now = now
        self._mine: Lease | None = None
        self._acquire_began = 0.0
        self.seen: Observation | None = None
        self.acquired_at = ""
        self.slow_paths = 0

    async def acquire(self) -> float | None:
        """Acquire the lease unless another candidate holds it.

        Returns:
            The local time at which the write that acquired the lease began; None if the lease is not ours.
        """
        lease = await self._read()
        try:
            if lease is not None and self._is_mine(lease):
                # The response to our write was lost. Writing again instead would block all candidates for as long as
                # responses get lost.
                self._mine = lease
            elif self.seen is not None and self.seen.is_held(self._clock(), self._seconds):
                # Even if the object was deleted: its holder does not know yet.
                self.forget()
                return None
            elif lease is not None:
                await self._acquire_by(
                    self._client.update, taken_over(lease, self._identity, self._seconds, self._now())
                )
            else:
                number = 0 if self.seen is None else self.seen.transitions + 1
                lease = new_lease(
                    self._name, self._namespace, self._identity, self._seconds, self._now(), transitions=number
                )
                await self._acquire_by(self._client.create, lease)
        except ConflictError:
            return None  # another candidate was faster
        return self._acquire_began

    async def renew(self) -> bool:
        """Renew the lease; returns False if it is no longer ours. Usually takes one request."""
        known = self._mine
        if known is not None:
            try:
                self._note(await self._renew_client.update(renewed(known, self._seconds, self._now())))
            except (ConflictError, NotFoundError):
                self.slow_paths += 1
            else:
                return True
        lease = await self._read()
        if lease is not None and self._is_mine(lease):
            self._note(await self._renew_client.update(renewed(lease, self._seconds, self._now())))
            return True
        if lease is None and known is not None:
            # Deleted while we hold it: no candidate that had seen it takes over before it would have expired.
            self._note(await self._renew_client.create(renewed(recreated(known), self._seconds, self._now())))
            return True
        self.forget()
        return False

    async def release(self) -> None:
        """Release the lease if it is ours.

        Raises:
            ConflictError: it was changed at the same time; retry.
        """
        if not self.acquired_at:
            return
        # Without a response to our last write, its outcome must be read.
        lease, self._mine = self._mine or await self._read(), None
        if lease is not None and self._is_mine(lease):
            with suppress(NotFoundError):
                freed = await self._client.update(released(lease, self._now()))
                self.seen = observe(self.seen, freed, self._clock())
        self.forget()

    def forget(self) -> None:
        """Treat the lease as not ours from now on, even if it was acquired."""
        self.acquired_at, self._mine = "", None

    async def _read(self) -> Lease | None:
        try:
            lease = await self._client.get(Lease, self._name, self._namespace)
        except NotFoundError:
            return None
        self.seen = observe(self.seen, lease, self._clock())
        return lease

    async def _acquire_by(self, write: Callable[[Lease], Awaitable[Lease]], lease: Lease) -> None:
        # Noted before it is sent: the lease may be ours although the response never arrives.
        self.acquired_at, self._acquire_began, self._mine = lease.spec.acquire_time or "", self._clock(), None
        self._note(await write(lease))

    def _note(self, written: Lease) -> None:
        self._mine = written
        self.seen = observe(self.seen, written, self._clock())

    def _is_mine(self, lease: Lease) -> bool:
        return is_acquired_by(lease, self._identity, self.acquired_at)
