"""The controller manager that leads goes away, and another one goes on where it stopped."""

from datetime import UTC, datetime, timedelta
from typing import Final

from e2e.audit_trail import AuditTrail, made_twice, out_of_term, terms_of
from e2e.installation import Installation, Replica
from e2e.names import LEASE
from e2e.stories.orders import SMALL, order

ACCOUNT: Final = "gpuruntime-controller-manager"
# What the operations team counts on: the lease and one retry where a leader dies, neither where it steps down. The
# margin is threefold, because the machine may be busy with other tests.
MARGIN: Final = timedelta(seconds=3 * 3)
LEASE_AND_RETRY: Final = timedelta(seconds=15 + 2)


def test_after_the_death_of_the_leader_another_one_leads_when_the_lease_has_run_out(
    disturbed: Installation, trail: AuditTrail, mark: str
) -> None:
    leader = disturbed.replicas.leader()

    died = datetime.now(UTC)
    disturbed.replicas.kill(leader)
    made_meanwhile(disturbed, f"orphan-{mark}", mark)

    assert taken_over(trail, leader, died) - died < LEASE_AND_RETRY + MARGIN
    assert written_by_one_at_a_time(trail)


def test_a_leader_that_is_told_to_end_hands_over_at_once(disturbed: Installation, trail: AuditTrail, mark: str) -> None:
    leader = disturbed.replicas.leader()

    told = datetime.now(UTC)
    disturbed.replicas.end(leader)
    made_meanwhile(disturbed, f"heir-{mark}", mark)

    assert taken_over(trail, leader, told) - told < MARGIN
    assert written_by_one_at_a_time(trail)


def made_meanwhile(installation: Installation, name: str, mark: str) -> None:
    """Order a unit and have it: the API takes the order whoever leads."""
    made = installation.api.post("/gpu-units", order(name, f"spec-{mark}", coldStart=True, **SMALL))
    assert made.status == 201, made
    installation.cluster.ready(name)


def taken_over(trail: AuditTrail, leader: Replica, since: datetime) -> datetime:
    """When somebody else took the lease."""
    terms = terms_of(trail.writes(), LEASE)
    return next(term.answered for term in terms if term.answered > since and term.credential != leader.credential)


def written_by_one_at_a_time(trail: AuditTrail) -> bool:
    """Whether in all the time of this cluster only leaders wrote, and made nothing that was there."""
    writes = trail.writes()
    assert out_of_term(writes, ACCOUNT, LEASE) == []
    assert made_twice(writes, ACCOUNT) == []
    return any(write.user == ACCOUNT and write.resource == "deployments" for write in writes)
