"""The leading controller manager stops, and the other one takes over."""

from datetime import timedelta
from typing import Final

from e2e.audit_trail import AuditTrail, duplicate_creations, lease_writes, writes_without_lease
from e2e.installation import Installation, Replica
from e2e.names import LEASE as LEASE_NAME
from e2e.stories.orders import SMALL, order

ACCOUNT: Final = "gpuruntime-controller-manager"
# After a crash the lease has to expire, after a clean stop it is free. Another one asks for it every two seconds. The
# margin is large, because the machine may be busy with other tests.
LEASE: Final = timedelta(seconds=15)
RETRIES: Final = timedelta(seconds=2 + 2)
MARGIN: Final = timedelta(seconds=20)


def test_after_a_crash_of_the_leader_another_one_leads_when_the_lease_has_expired(
    exclusive: Installation, trail: AuditTrail, suffix: str
) -> None:
    leader = exclusive.replicas.leader()

    exclusive.replicas.kill(leader)
    create_unit(exclusive, f"orphan-{suffix}", suffix)

    assert without_a_leader(trail, leader) < LEASE + RETRIES + MARGIN
    assert only_leaders_wrote(trail)


def test_a_leader_that_stops_releases_its_lease_at_once(
    exclusive: Installation, trail: AuditTrail, suffix: str
) -> None:
    leader = exclusive.replicas.leader()

    exclusive.replicas.end(leader)
    create_unit(exclusive, f"heir-{suffix}", suffix)

    assert without_a_leader(trail, leader) < LEASE
    assert only_leaders_wrote(trail)


def create_unit(installation: Installation, name: str, suffix: str) -> None:
    """Create a unit and wait until it is ready; the API accepts it without a leader."""
    made = installation.api.post("/gpu-units", order(name, f"spec-{suffix}", coldStart=True, **SMALL))
    assert made.status == 201, made
    installation.cluster.ready(name)


def without_a_leader(trail: AuditTrail, leader: Replica) -> timedelta:
    """The time from the last write of a leader to its lease until another replica acquired it."""
    terms = lease_writes(trail.writes(), LEASE_NAME)
    last = max(index for index, term in enumerate(terms) if term.credential == leader.credential)
    return terms[last + 1].answered - terms[last].answered


def only_leaders_wrote(trail: AuditTrail) -> bool:
    """Whether only leaders wrote, for the whole life of this cluster, and created no object twice."""
    writes = trail.writes()
    assert writes_without_lease(writes, ACCOUNT, LEASE_NAME) == []
    assert duplicate_creations(writes, ACCOUNT) == []
    return any(write.user == ACCOUNT and write.resource == "deployments" for write in writes)
