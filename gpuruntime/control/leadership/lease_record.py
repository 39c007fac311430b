"""What candidates write into a Lease, and what they conclude from what they read there.

The rules of client-go, whose candidates can take part: times in the record are for people to read and are never
compared with a local clock. A candidate notes when, by its own clock, it saw the record change; a record that has not
changed for as long as it says is void.
"""

from datetime import datetime, timedelta
from typing import Any, Final

from attrs import evolve, frozen

from gpuruntime.kube.builtin.coordination import Lease, LeaseSpec
from gpuruntime.meta.objects import ObjectMeta
from gpuruntime.meta.timestamps import format_micros, parse_timestamp

__all__ = ["Observation", "first_claim", "is_claim", "observe", "recreated", "released", "renewed", "taken_over"]

_TICK: Final = timedelta(microseconds=1)


@frozen
class Observation:
    """The record that was last seen, and when, by the local clock, it was first seen so."""

    spec: LeaseSpec
    since: float

    @property
    def holder(self) -> str:
        """Who holds the lease; "" if nobody does."""
        return self.spec.holder_identity or ""

    @property
    def transitions(self) -> int:
        return self.spec.lease_transitions or 0

    def is_held(self, now: float, default_seconds: float) -> bool:
        """Whether somebody may believe to hold the lease now; `default_seconds` is for a record without a duration."""
        seconds = self.spec.lease_duration_seconds or default_seconds
        return bool(self.holder) and now < self.since + seconds


def observe(before: Observation | None, lease: Lease, now: float) -> Observation:
    """What is known after a lease was read, or written: an edit of its metadata is no sign of life."""
    return before if before is not None and before.spec == lease.spec else Observation(lease.spec, now)


def first_claim(
    name: str, namespace: str, identity: str, seconds: int, instant: datetime, *, transitions: int
) -> Lease:
    """The lease where there is none."""
    time = format_micros(instant)
    return Lease(ObjectMeta(name=name, namespace=namespace), LeaseSpec(identity, seconds, time, time, transitions))


def taken_over(lease: Lease, identity: str, seconds: int, instant: datetime) -> Lease:
    """The lease in other hands."""
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
    """The lease as it can be created anew after somebody deleted it."""
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
    """The lease with a sign of life of its holder.

    The renew time always moves on, whatever the wall clock does: the server drops a write that changes nothing, and
    standbys would take the silence for death.
    """
    before = lease.spec.renew_time
    moved_on = instant if before is None else max(instant, parse_timestamp(before) + _TICK)
    return _changed(lease, lease_duration_seconds=seconds, renew_time=format_micros(moved_on))


def released(lease: Lease, instant: datetime) -> Lease:
    """The lease free for others at once; the shortest duration is for those who look at nothing else."""
    time = format_micros(instant)
    return _changed(lease, holder_identity="", lease_duration_seconds=1, acquire_time=time, renew_time=time)


def is_claim(lease: Lease, identity: str, acquire_time: str) -> bool:
    """Whether the lease is held by the claim that this identity made at this time, and not by a namesake."""
    return lease.spec.holder_identity == identity and lease.spec.acquire_time == acquire_time


def _changed(lease: Lease, **changes: Any) -> Lease:
    return evolve(lease, spec=evolve(lease.spec, **changes))
