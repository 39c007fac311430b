"""Whose events reach the server: the leader's, until it has released the lease."""

import asyncio

from gpuruntime.control import Election, Manager, ManagerOptions
from gpuruntime.control.events.correlator import DropCause
from gpuruntime.kube import from_kubeconfig
from gpuruntime.kube.builtin.events import ObjectReference
from gpuruntime.testing import AuditLog, ClusterAccess
from tests.control.scenes import LONG_LEASE, eventually, managing


def replica(access: ClusterAccess, namespace: str, name: str) -> Manager:
    election = Election(namespace, "events", identity=name, timing=LONG_LEASE)
    return Manager(from_kubeconfig(access.kubeconfig), ManagerOptions(name, election=election))


def record(manager: Manager, namespace: str, reason: str) -> None:
    about = ObjectReference(api_version="v1", kind="ConfigMap", namespace=namespace, name="web")
    manager.recorder.record(about, "Normal", reason, "Test", "it happened")


async def test_a_leader_that_stops_sends_its_last_events_before_it_releases_the_lease(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_audit: AuditLog
) -> None:
    manager = replica(kube_cluster, kube_namespace, "leaving")
    leading = asyncio.Event()

    async def work() -> None:
        leading.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            record(manager, kube_namespace, "Leaving")

    manager.add(work, "work")
    with kube_audit.recording() as seen:
        async with managing(manager):
            await leading.wait()

    writes = [(write.resource, write.verb) for write in seen.writes(namespace=kube_namespace)]
    assert writes[-2:] == [("events", "create"), ("leases", "update")]


async def test_a_replica_that_does_not_lead_sends_no_event_and_counts_what_it_drops(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_audit: AuditLog
) -> None:
    leader, standby = (replica(kube_cluster, kube_namespace, name) for name in ("leader", "standby"))
    assert leader.election is not None
    with kube_audit.recording() as seen:
        async with managing(leader):
            await eventually(lambda: bool(leader.election and leader.election.is_leader))
            async with managing(standby):
                record(standby, kube_namespace, "Waiting")
                record(leader, kube_namespace, "Leading")
                await eventually(lambda: standby.recorder.counters.dropped[DropCause.NOT_LEADER] == 1)
                await eventually(lambda: leader.recorder.counters.sent == 1)

    events = [write for write in seen.writes(namespace=kube_namespace) if write.resource == "events"]
    assert [write.user_agent for write in events] == ["leader"]
