"""A leader that was frozen for longer than its lease, and what it still sends when it goes on."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest
from attrs import define, field

from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.cluster.access import kubeconfig_document
from gpuruntime.testing.faults import ClientCertificate, FaultProxy
from tests.control.busy_replica import JOURNAL

W = TypeVar("W")
ROOT = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS = 60.0
LOOPS = ["asyncio", "uvloop"]
SOAK = [pytest.mark.soak, pytest.mark.timeout(1800)]


@define(eq=False)
class Replica:
    """A process that writes while it leads."""

    name: str
    process: asyncio.subprocess.Process
    proxy: FaultProxy | None
    wake_ups: list[float] = field(factory=list)

    async def says(self, word: str) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while line := (await self.process.stdout.readline()).decode():
                if line.startswith(word):
                    return line
        raise AssertionError(f"{self.name} has ended")

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        self.wake_ups.append(time.time())
        os.kill(self.process.pid, signal.SIGCONT)


@asynccontextmanager
async def replicas(
    access: ClusterAccess, namespace: str, directory: Path, loop: str, *, proxied: bool
) -> AsyncIterator[list[Replica]]:
    """Two of them, that compete for one lease."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    access.admin().create(path, {"metadata": {"name": JOURNAL}})
    async with AsyncExitStack() as stack:
        started = []
        for name in ("one", "two"):
            kubeconfig, proxy = access.kubeconfig, None
            if proxied:
                identity = ClientCertificate(access.certificate, access.key)
                proxy = await stack.enter_async_context(FaultProxy(access.server, access.authority, identity=identity))
                kubeconfig = directory / f"{name}.kubeconfig"
                kubeconfig.write_text(json.dumps(kubeconfig_document(proxy.url, b"", {})))
            command = ["-m", "tests.control.busy_replica", loop, name, namespace, str(kubeconfig)]
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, cwd=ROOT
            )
            stack.push_async_callback(process.wait)
            stack.callback(process.kill)
            started.append(Replica(name, process, proxy))
        yield started


async def first_to_write(among: list[Replica]) -> Replica:
    waiting = {asyncio.create_task(replica.says("writing")): replica for replica in among}
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.wait(pending)
    return waiting[done.pop()]


async def freeze_in_turns(pair: list[Replica], rounds: int, random: Random) -> None:
    """Freeze the leader at a random moment, until a second after the other leads."""
    leader = await first_to_write(pair)
    for _ in range(rounds):
        (successor,) = (replica for replica in pair if replica is not leader)
        await asyncio.sleep(random.uniform(0.05, 0.4))
        leader.freeze()
        await successor.says("writing")
        await asyncio.sleep(1.0)
        leader.thaw()
        await leader.says("stopped")
        leader = successor


def before_it_leads_again(writes: Iterable[W], takes_the_lease: Callable[[W], bool]) -> list[W]:
    """The first of these writes: a replica that goes on may lead again at once, if the other one has just given up."""
    return list(takewhile(lambda write: not takes_the_lease(write), writes))


def late_requests(pair: list[Replica], offset: float) -> list[tuple[str, str, int | None, float]]:
    """Writes, renewals included, that reached the proxies within the second after their sender went on."""
    found = []
    for replica in pair:
        for wake_up in replica.wake_ups:
            exchanges = replica.proxy.log.exchanges if replica.proxy else ()
            writes = (one for one in exchanges if one.write and 0 <= one.at + offset - wake_up < 1.0)
            # A renewal of its old term is rejected, because the other one has written the lease since.
            late = before_it_leads_again(writes, lambda one: one.call.resource == "leases" and one.accepted)
            found += [(replica.name, str(one), one.status, round(one.at + offset - wake_up, 4)) for one in late]
    return found


@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=SOAK)])
@pytest.mark.parametrize("loop", LOOPS)
async def test_no_byte_of_a_write_leaves_a_frozen_leader_after_it_was_continued(
    kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path, loop: str, rounds: int
) -> None:
    async with replicas(kube_cluster, kube_namespace, tmp_path, loop, proxied=True) as pair:
        offset = time.time() - asyncio.get_running_loop().time()
        await freeze_in_turns(pair, rounds, Random())

    assert late_requests(pair, offset) == []


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=SOAK)])
@pytest.mark.parametrize("loop", LOOPS)
async def test_no_byte_of_a_write_leaves_a_leader_whose_loop_was_blocked_past_its_lease(
    kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path, loop: str, rounds: int
) -> None:
    async with replicas(kube_cluster, kube_namespace, tmp_path, loop, proxied=True) as pair:
        offset = time.time() - asyncio.get_running_loop().time()
        leader = await first_to_write(pair)
        for _ in range(rounds):
            (successor,) = (replica for replica in pair if replica is not leader)
            os.kill(leader.process.pid, signal.SIGUSR1)
            await successor.says("writing")
            leader.wake_ups.append(float((await leader.says("blocked until")).split()[-1]))
            await leader.says("stopped")
            leader = successor

    assert late_requests(pair, offset) == []


@pytest.mark.parametrize("pauses", [8, pytest.param(400, marks=SOAK)])
async def test_no_write_of_a_starved_replica_is_received_while_another_holds_the_lease(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_audit: AuditLog, tmp_path: Path, pauses: int
) -> None:
    random = Random()
    with kube_audit.recording() as seen:
        async with replicas(kube_cluster, kube_namespace, tmp_path, "asyncio", proxied=False) as pair:
            starved = await first_to_write(pair)
            for _ in range(pauses):
                starved.freeze()
                await asyncio.sleep(random.expovariate(1.0))
                starved.thaw()
                await asyncio.sleep(random.expovariate(20.0))

    requests = sorted((request for request in seen.writes(namespace=kube_namespace)), key=lambda one: one.received)
    holder, strays = "", []
    for request in requests:
        if request.resource == "leases":
            holder = request.user_agent.partition("/")[0]
        elif request.user_agent in {"one", "two"} and request.user_agent != holder:
            strays.append((request.user_agent, request.verb, request.resource, request.received))
    assert strays == []


@pytest.mark.parametrize("rounds", [1, pytest.param(50, marks=SOAK)])
@pytest.mark.parametrize("loop", LOOPS)
async def test_no_write_of_a_frozen_leader_is_received_over_tls_after_it_was_continued(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_audit: AuditLog, tmp_path: Path, loop: str, rounds: int
) -> None:
    with kube_audit.recording() as seen:
        async with replicas(kube_cluster, kube_namespace, tmp_path, loop, proxied=False) as pair:
            await freeze_in_turns(pair, rounds, Random())

    late = []
    for replica in pair:
        writes = sorted(
            (
                request
                for request in seen.requests
                if request.namespace == kube_namespace
                and request.user_agent == replica.name
                and request.verb in {"patch", "create", "update"}
            ),
            key=lambda request: request.received,
        )
        for wake_up in replica.wake_ups:
            after = [one for one in writes if 0 <= datetime.fromisoformat(one.received).timestamp() - wake_up < 1.0]
            sent = before_it_leads_again(after, lambda one: one.resource == "leases" and one.is_write)
            late += [(replica.name, one.verb, one.resource, one.code) for one in sent if one.verb != "update"]
    assert late == []
