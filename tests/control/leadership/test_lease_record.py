import re
from datetime import UTC, datetime, timedelta, timezone

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

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
from gpuruntime.kube.builtin.coordination import Lease, LeaseSpec
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.objects import ObjectMeta

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
INSTANTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds of a strategy
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")

STORED = decode(
    Lease,
    {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "lease", "namespace": "a", "resourceVersion": "7", "uid": "u", "labels": {"team": "blue"}},
        "spec": {
            "holderIdentity": "one",
            "leaseDurationSeconds": 40,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:02.000000Z",
            "leaseTransitions": 3,
            "strategy": "OldestEmulationVersion",
        },
    },
)


def test_times_are_written_in_utc_with_six_digits() -> None:
    in_new_york = NOON.astimezone(timezone(timedelta(hours=-5)))

    lease = new_lease("lease", "a", "one", 15, in_new_york, transitions=0)

    assert encode(lease)["spec"] == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-02T12:00:00.000000Z",
        "renewTime": "2026-01-02T12:00:00.000000Z",
        "leaseTransitions": 0,
    }


def test_every_change_keeps_what_it_is_not_about() -> None:
    changes = [taken_over(STORED, "two", 15, NOON), renewed(STORED, 15, NOON), released(STORED, NOON)]

    assert {lease.metadata for lease in changes} == {STORED.metadata}
    assert {lease.spec.extra["strategy"] for lease in changes} == {"OldestEmulationVersion"}


def test_a_change_of_hands_is_counted_and_begins_anew() -> None:
    spec = taken_over(STORED, "two", 15, NOON).spec

    moment = "2026-01-02T12:00:00.000000Z"
    assert evolve(spec, extra=FrozenDict()) == LeaseSpec("two", 15, moment, moment, 4)


def test_a_renewal_keeps_holder_acquire_time_and_count() -> None:
    spec = renewed(STORED, 15, NOON).spec

    assert (spec.holder_identity, spec.acquire_time) == ("one", STORED.spec.acquire_time)
    assert (spec.lease_transitions, spec.lease_duration_seconds) == (3, 15)
    assert spec.renew_time == "2026-01-02T12:00:00.000000Z"


def test_a_release_has_no_holder_for_a_second_and_keeps_the_transitions() -> None:
    spec = released(STORED, NOON).spec

    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("", 1, 3)
    assert encode(released(STORED, NOON))["spec"]["holderIdentity"] == ""


@given(st.lists(INSTANTS, min_size=2, max_size=8))
def test_every_renewal_differs_from_all_before_it_whatever_the_wall_clock_does(instants: list[datetime]) -> None:
    first, *later = instants
    leases = [new_lease("lease", "a", "one", 15, first, transitions=0)]
    for instant in later:
        leases.append(renewed(leases[-1], 15, instant))

    times = [lease.spec.renew_time or "" for lease in leases]
    assert times == sorted(set(times))
    assert all(MICRO_TIME.fullmatch(time) for time in times)


def test_a_lease_that_was_deleted_can_be_created_again() -> None:
    metadata = recreated(STORED).metadata

    assert metadata == ObjectMeta(name="lease", namespace="a", labels=FrozenDict({"team": "blue"}))
    assert recreated(STORED).spec == STORED.spec


def test_a_record_counts_from_when_it_was_first_seen_as_it_is() -> None:
    relabelled = evolve(STORED, metadata=ObjectMeta(name="lease", namespace="a", resource_version="8"))
    first = observe(None, STORED, 100.0)

    unchanged = observe(first, relabelled, 110.0)
    changed = observe(first, renewed(STORED, 15, NOON), 110.0)

    assert (first.since, unchanged.since, changed.since) == (100.0, 100.0, 110.0)


def test_a_record_is_held_for_its_own_duration_and_a_free_one_not_at_all() -> None:
    own = Observation(STORED.spec, 100.0)
    without_duration = Observation(evolve(STORED.spec, lease_duration_seconds=None), 100.0)
    free = Observation(released(STORED, NOON).spec, 100.0)

    assert [own.is_held(now, 15) for now in (100.0, 139.9, 140.0)] == [True, True, False]
    assert [without_duration.is_held(now, 15) for now in (114.9, 115.0)] == [True, False]
    assert not free.is_held(100.0, 15)


def test_an_empty_lease_has_no_holder() -> None:
    empty = Observation(LeaseSpec(), 0.0)

    assert (empty.holder, empty.transitions, empty.is_held(0.0, 15)) == ("", 0, False)


def test_a_claim_is_known_by_holder_and_acquire_time() -> None:
    acquired = STORED.spec.acquire_time or ""

    assert is_acquired_by(STORED, "one", acquired)
    assert not is_acquired_by(STORED, "one", "2026-01-01T00:00:00.000001Z")
    assert not is_acquired_by(STORED, "two", acquired)
    assert not is_acquired_by(evolve(STORED, spec=LeaseSpec()), "", "")
