"""The leading controller manager stops, and the other one takes over."""

from datetime import UTC, datetime, timedelta
from typing import Final

from e2e.audit_trail import AuditTrail, duplicate_creations, lease_writes, writes_without_lease
from e2e.cluster_view import eventually
from e2e.installation import Installation, Replica
from e2e.names import LEASE
from e2e.stories.orders import SMALL, order

ACCOUNT: Final = "gpuruntime-controller-manager"
# A failover takes the lease duration and one retry period after a crash, and neither after a clean stop. The margin is
# threefold, because the machine may be busy with other tests.
MARGIN: Final = timedelta(seconds=3 * 3)
LEASE_AND_RETRY: Final = timedelta(seconds=15 + 2)


def test_after_a_crash_of_the_leader_another_one_leads_when_the_lease_has_expired(
    exclusive: Installation, trail: AuditTrail, suffix: str
) -> None:
    leader = exclusive.replicas.leader()

    died = datetime.now(UTC)
    exclusive.replicas.kill(leader)
    create_unit(exclusive, f"orphan-{suffix}", suffix)

    assert lease_taken_at(trail, leader, died) - died < LEASE_AND_RETRY + MARGIN
    assert only_leaders_wrote(trail)


def test_a_leader_that_stops_releases_its_lease_at_once(
    exclusive: Installation, trail: AuditTrail, suffix: str
) -> None:
    leader = exclusive.replicas.leader()

    stopped = datetime.now(UTC)
    exclusive.replicas.end(leader)
    create_unit(exclusive, f"heir-{suffix}", suffix)

    assert lease_taken_at(trail, leader, stopped) - stopped < MARGIN
    assert only_leaders_wrote(trail)


def create_unit(installation: Installation, name: str, suffix: str) -> None:
    """Create a unit and wait until it is ready; the API accepts it without a leader."""
    made = installation.api.post("/gpu-units", order(name, f"spec-{suffix}", coldStart=True, **SMALL))
    assert made.status == 201, made
    installation.cluster.ready(name)


def lease_taken_at(trail: AuditTrail, leader: Replica, since: datetime) -> datetime:
    """When another replica acquired the lease. A pod that is deleted leads on until its SIGTERM arrives."""

    def taken() -> datetime | None:
        terms = lease_writes(trail.writes(), LEASE)
        others = (term.answered for term in terms if term.credential != leader.credential)
        return next((answered for answered in others if answered > since), None)

    return eventually(taken, "a lease of another replica")


def only_leaders_wrote(trail: AuditTrail) -> bool:
    """Whether only leaders wrote, for the whole life of this cluster, and created no object twice."""
    writes = trail.writes()
    assert writes_without_lease(writes, ACCOUNT, LEASE) == []
    assert duplicate_creations(writes, ACCOUNT) == []
    return any(write.user == ACCOUNT and write.resource == "deployments" for write in writes)
