"""Replicas that take turns on a real API server, and what its audit log says about them. How soon is tested in virtual
time, in `test_election.py`.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.testing import AuditLog, ClusterAccess, Request
from gpuruntime.testing.change_signal import ChangeSignal
from gpuruntime.testing.cluster.accounts import Account
from gpuruntime.testing.faults import (
    BearerToken,
    DropRequests,
    FailRequests,
    Fault,
    FaultProxy,
    LoseResponses,
    StallRequests,
)
from gpuruntime.testing.plugin import AccountFactory
from tests.control.counting_replica import COUNTER, LEASE, Replica

ROOT = Path(__file__).resolve().parents[3]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/.*/leases/.*"
RULES = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]},
]

Join = Callable[[str, Account], AbstractAsyncContextManager[Replica]]


@pytest.fixture
def accounts(kube_cluster: ClusterAccess, kube_namespace: str, kube_account: AccountFactory) -> list[Account]:
    """Two accounts that may do no more than an elected replica needs; the counter is there."""
    kube_cluster.admin().create(
        f"/api/v1/namespaces/{kube_namespace}/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": COUNTER}},
    )
    return [kube_account(rules=RULES), kube_account(rules=RULES)]


@pytest.fixture
async def changed() -> ChangeSignal:
    """Notified of every replica that begins, ends, or counts."""
    return ChangeSignal()


@pytest.fixture
async def join(kube_namespace: str, changed: ChangeSignal) -> AsyncIterator[Join]:
    """`async with join("one", account) as replica` lets a replica stand against all others that joined."""
    replicas: list[Replica] = []

    @asynccontextmanager
    async def open_replica(identity: str, account: Account) -> AsyncIterator[Replica]:
        async with Replica.open(identity, kube_namespace, account.kubeconfig, lambda _: None, changed) as replica:
            replica.rivals += replicas
            for rival in replicas:
                rival.rivals.append(replica)
            replicas.append(replica)
            async with replica.standing():
                yield replica

    yield open_replica
    assert {replica.identity: replica.rivals_seen_leading for replica in replicas} == {
        replica.identity: [] for replica in replicas
    }


def lease_of(cluster: ClusterAccess, namespace: str) -> Any:
    return cluster.admin().get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}")["spec"]


@asynccontextmanager
async def proxied(cluster: ClusterAccess, account: Account) -> AsyncIterator[FaultProxy]:
    """Leads the account through a proxy from now on."""
    async with FaultProxy(cluster.server, cluster.authority, identity=BearerToken(account.token)) as proxy:
        document = json.loads(account.kubeconfig.read_text())
        document["clusters"][0]["cluster"] = {"server": proxy.url}
        account.kubeconfig.write_text(json.dumps(document))
        yield proxy


def writes_of_others_than_the_leader(requests: list[Request], accounts: list[Account]) -> list[Request]:
    """Counts that were accepted although the last write to the lease that the server received was not of their author.

    The server may answer a count late, after the lease has changed hands.
    """
    users, leader, found = {account.username for account in accounts}, "", []
    for request in sorted(requests, key=lambda one: one.received):
        if request.is_write and request.user in users:
            if request.resource == "leases":
                leader = request.user
            elif request.user != leader:
                found.append(request)
    return found


async def test_replicas_take_turns_and_a_stopped_one_hands_over_at_once(
    kube_cluster: ClusterAccess, kube_namespace: str, accounts: list[Account], join: Join
) -> None:
    async with AsyncExitStack() as later:
        async with join("one", accounts[0]) as one:
            await one.has_led()
            two = await later.enter_async_context(join("two", accounts[1]))
            await one.has_counted()
        await two.has_led()
        led = lease_of(kube_cluster, kube_namespace)
    freed = lease_of(kube_cluster, kube_namespace)

    assert (led["holderIdentity"], led["leaseDurationSeconds"], led["leaseTransitions"]) == ("two", 3, 1)
    assert (freed["holderIdentity"], freed["leaseDurationSeconds"], freed["leaseTransitions"]) == ("", 1, 1)
    assert [term.number for term in one.terms + two.terms] == [0, 1]


async def test_a_replica_that_is_cut_off_is_replaced_when_its_lease_has_run_out(
    accounts: list[Account], join: Join
) -> None:
    async with join("one", accounts[0]) as one:
        await one.has_led()
        async with join("two", accounts[1]) as two:
            await one.lease_transport.close()
            await two.has_led()

            assert one.ends == 1
            assert not one.election.is_leader
            assert two.terms[0].number == 1


@pytest.mark.parametrize(
    "fault",
    [DropRequests(), StallRequests(), LoseResponses(), FailRequests(503)],
    ids=lambda fault: type(fault).__name__,
)
async def test_a_leader_that_cannot_renew_has_stopped_before_another_leads_and_stands_again(
    kube_cluster: ClusterAccess, accounts: list[Account], join: Join, fault: Fault
) -> None:
    async with proxied(kube_cluster, accounts[0]) as proxy, join("one", accounts[0]) as one:
        await one.has_led()
        async with join("two", accounts[1]) as two:
            with proxy.inject(fault, method="PUT", path=LEASES):
                await two.has_led()
                ended = one.ends
        await one.has_led(terms=2)

    assert ended == 1


async def test_there_is_one_leader_at_most_while_the_server_flaps(
    kube_cluster: ClusterAccess, kube_audit: AuditLog, accounts: list[Account], join: Join, changed: ChangeSignal
) -> None:
    faults: list[Fault] = [DropRequests(), StallRequests(), LoseResponses(), FailRequests(500), StallRequests()]
    with kube_audit.recording() as seen:
        async with (
            proxied(kube_cluster, accounts[0]) as to_one,
            proxied(kube_cluster, accounts[1]) as to_two,
            join("one", accounts[0]) as one,
            join("two", accounts[1]) as two,
        ):
            for number, fault in enumerate(faults):
                # From an outage that nobody notices to one that lasts longer than a lease.
                with to_one.inject(fault), to_two.inject(fault):
                    await asyncio.sleep(0.5 + 0.8 * number)
                await changed.until(lambda: one.election.is_leader or two.election.is_leader)

    assert writes_of_others_than_the_leader(seen.requests, accounts) == []
    assert len(one.terms + two.terms) > 1


async def test_no_write_of_a_paused_leader_is_accepted_after_another_has_led(
    kube_namespace: str, kube_audit: AuditLog, accounts: list[Account], join: Join
) -> None:
    paused, other = accounts
    with kube_audit.recording() as seen:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.control.counting_replica", "paused", kube_namespace, str(paused.kubeconfig)),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        assert process.stdout is not None
        try:
            begun = await process.stdout.readline()
            async with join("other", other) as replica:
                os.kill(process.pid, signal.SIGSTOP)
                await replica.has_counted()
                os.kill(process.pid, signal.SIGCONT)
                ended = await process.stdout.readline()
        finally:
            process.kill()
            await process.wait()

    assert (begun, ended) == (b"counting\n", b"ended\n")
    assert writes_of_others_than_the_leader(seen.requests, accounts) == []
    assert {request.user for request in seen.requests if request.is_write and request.resource == "configmaps"} >= {
        paused.username,
        other.username,
    }
