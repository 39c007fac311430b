"""The record in a Lease: how candidates write it, and when it has expired.

The rules are client-go's, whose candidates can take part: times in the record are for people and are never compared
with a local clock. A candidate notes by its own clock when it saw the record change; a record that has not changed for
its lease duration has expired.
"""

from datetime import datetime, timedelta
from typing import Any, Final

from attrs import evolve, frozen

from gpuruntime.kube.builtin.coordination import Lease, LeaseSpec
from gpuruntime.meta.objects import ObjectMeta
from gpuruntime.meta.timestamps import format_micros, parse_timestamp

__all__ = ["Observation", "is_acquired_by", "new_lease", "observe", "recreated", "released", "renewed", "taken_over"]

_TICK: Final = timedelta(microseconds=1)


@frozen
class Observation:
    """The last observed record, and the local time at which it was first observed."""

    spec: LeaseSpec
    since: float

    @property
    def holder(self) -> str:
        """The holder of the lease; "" if it has none."""
        return self.spec.holder_identity or ""

    @property
    def transitions(self) -> int:
        return self.spec.lease_transitions or 0

    def is_held(self, now: float, default_seconds: float) -> bool:
        """Whether the lease has not expired; `default_seconds` is for a record without a duration."""
        seconds = self.spec.lease_duration_seconds or default_seconds
        return bool(self.holder) and now < self.since + seconds


def observe(before: Observation | None, lease: Lease, now: float) -> Observation:
    """The observation after a lease was read or written. An edit of its metadata is not a renewal."""
    return before if before is not None and before.spec == lease.spec else Observation(lease.spec, now)


def new_lease(name: str, namespace: str, identity: str, seconds: int, instant: datetime, *, transitions: int) -> Lease:
    """The first record of a new lease."""
    time = format_micros(instant)
    return Lease(ObjectMeta(name=name, namespace=namespace), LeaseSpec(identity, seconds, time, time, transitions))


def taken_over(lease: Lease, identity: str, seconds: int, instant: datetime) -> Lease:
    """The lease with another holder."""
    time = format_micros(instant)
    return _changed(
        lease,
        holder_identity=identity,
        lease_duration_seconds=seconds,
        acquire_time=time,
        renew_time=time,
        lease_transitions=(lease.spec.lease_transitions or 0) + 1,
    )


def recreated(lease: Lease) -> Lease:
    """The lease as it can be created again after it was deleted."""
    metadata = lease.metadata
    kept = ObjectMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        labels=metadata.labels,
        annotations=metadata.annotations,
        owner_references=metadata.owner_references,
    )
    return evolve(lease, metadata=kept)


def renewed(lease: Lease, seconds: int, instant: datetime) -> Lease:
    """The lease with a new renew time.

    The renew time always moves forward, whatever the wall clock does: the server drops a write that changes nothing,
    and standbys would see no renewal.
    """
    before = lease.spec.renew_time
    moved_on = instant if before is None else max(instant, parse_timestamp(before) + _TICK)
    return _changed(lease, lease_duration_seconds=seconds, renew_time=format_micros(moved_on))


def released(lease: Lease, instant: datetime) -> Lease:
    """The lease without a holder, free at once. Its duration is 1 s for candidates that only look at the duration."""
    time = format_micros(instant)
    return _changed(lease, holder_identity="", lease_duration_seconds=1, acquire_time=time, renew_time=time)


def is_acquired_by(lease: Lease, identity: str, acquire_time: str) -> bool:
    """Whether this identity acquired the lease at this time; another process may have the same identity."""
    return lease.spec.holder_identity == identity and lease.spec.acquire_time == acquire_time


def _changed(lease: Lease, **changes: Any) -> Lease:
    return evolve(lease, spec=evolve(lease.spec, **changes))
