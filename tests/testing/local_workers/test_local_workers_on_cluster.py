"""Local workers beside a real control plane: pods run, restart and drain as with a kubelet, and others are refused."""

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.api.serverless import Framework
from gpuruntime.control import WaitCondition, deleted, wait_for
from gpuruntime.kube.builtin.containers import ContainerStatus
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import is_true
from gpuruntime.meta.codec import encode
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.local_workers import LocalWorkers
from gpuruntime.testing.permissions import usage
from tests.testing.local_workers.witness import Witness
from tests.testing.local_workers.worker_pods import command_of, worker_pod, write_function

WITHIN = 120.0
pytestmark = pytest.mark.timeout(240)


class Scene:
    """Pods of the test's namespace."""

    def __init__(self, cluster: ClusterAccess, workers: LocalWorkers, namespace: str) -> None:
        self.admin = cluster.admin()
        self.workers = workers
        self.namespace = namespace
        self.witness = Witness.at(workers.functions)

    async def create(self, **choices: Any) -> Pod:
        pod = worker_pod(self.namespace, **{"envs": self.witness.envs, **choices})
        await asyncio.to_thread(self.admin.create, f"/api/v1/namespaces/{self.namespace}/pods", encode(pod))
        return pod

    async def delete(self, pod: Pod, query: str = "") -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod.metadata.name}{query}"
        await asyncio.to_thread(self.admin.delete, path)

    async def until(self, pod: Pod, text: str, holds: Callable[[Pod], bool]) -> Pod:
        wanted: WaitCondition[Pod] = WaitCondition(text, lambda found: found is not None and holds(found))
        found = await wait_for(self.workers.pods, pod.key, wanted, within=WITHIN)
        assert found is not None
        return found

    async def ready(self, pod: Pod) -> Pod:
        return await self.until(pod, "it is ready", lambda found: is_true(found.status.conditions, "Ready"))

    async def restarted(self, pod: Pod, times: int) -> Pod:
        """The pod, once its program was restarted this many times, and is ready."""
        return await self.until(
            pod,
            f"restarted {times} times and ready",
            lambda found: crashes(found) == times and is_true(found.status.conditions, "Ready"),
        )

    async def gone(self, pod: Pod) -> None:
        await wait_for(self.workers.pods, pod.key, deleted(pod.metadata.uid), within=WITHIN)


@pytest.fixture
def scene(kube_cluster: ClusterAccess, kube_local_workers: LocalWorkers, kube_namespace: str) -> Scene:
    return Scene(kube_cluster, kube_local_workers, kube_namespace)


def program(pod: Pod) -> ContainerStatus:
    return pod.status.container_statuses[0]


def claims_of(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))))


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def ended(*pids: int) -> None:
    """Return when the processes have ended; the timeout of the test is the limit."""
    while any(map(is_running, pids)):  # noqa: ASYNC110 - not our children, so their end is no event here
        await asyncio.sleep(0.02)


async def test_a_worker_is_ready_with_a_token_that_is_bound_to_its_pod(scene: Scene) -> None:
    async with scene.workers.running():
        pod = await scene.ready(await scene.create())
        token = claims_of((scene.witness.socket.parent / "token").read_text())

        (started,) = scene.witness.events("start")

    assert token["aud"] == ["gpuruntime-activator"]
    assert token["kubernetes.io"]["pod"] == {"name": "worker", "uid": pod.metadata.uid}
    assert pod.status.phase == "Running"
    assert [status.name for status in pod.status.init_container_statuses] == ["serverless-sidecar"]
    assert all(status.ready for status in (*pod.status.init_container_statuses, program(pod)))
    assert len(str(scene.witness.socket)) <= 107
    assert set(started["env"]) <= {*(variable.name for variable in pod.spec.containers[0].env), *_BASE}


_BASE = ("PATH", "HOME", "LANG", "LC_CTYPE", "PYTHONUNBUFFERED")


async def test_a_killed_program_is_restarted_and_counted(scene: Scene) -> None:
    async with scene.workers.running():
        pod = await scene.ready(await scene.create())
        for number in (1, 2):
            scene.witness.kill()
            pod = await scene.restarted(pod, number)

    assert len(scene.witness.events("start")) == 3
    ending = program(pod).last_state.terminated
    assert ending is not None
    assert (ending.exit_code, ending.reason) == (137, "Error")


async def test_a_program_that_cannot_start_waits_longer_and_longer_and_says_why(scene: Scene) -> None:
    write_function(scene.workers.functions, "broken.py", "raise ValueError('no model')\n")
    async with scene.workers.running():
        pod = await scene.create(command=command_of("broken.py:echo"))
        seen = await scene.until(pod, "it restarted twice", lambda found: bool(crashes(found) >= 2))

    ending = program(seen).last_state.terminated
    assert ending is not None
    assert "ValueError: no model" in (ending.message or "")
    assert not is_true(seen.status.conditions, "Ready")
    assert seen.status.phase == "Running"


def crashes(pod: Pod) -> int:
    return program(pod).restart_count if pod.status.container_statuses else 0


async def test_a_program_that_is_not_healthy_in_its_time_is_restarted(scene: Scene) -> None:
    write_function(scene.workers.functions, "slow.py", "import time; time.sleep(3600)\n")
    async with scene.workers.running():
        pod = await scene.create(command=command_of("slow.py:echo"), framework=Framework(startup_timeout_seconds=2))
        seen = await scene.until(pod, "it restarted", lambda found: bool(crashes(found) >= 1))

    ending = program(seen).last_state.terminated
    assert ending is not None
    assert ending.exit_code == 137


async def test_another_command_and_another_directory_are_refused_in_the_status(scene: Scene, tmp_path: Path) -> None:
    write_function(tmp_path, "elsewhere.py")
    async with scene.workers.running():
        shell = await scene.create(name="shell", command=("sh", "-c", "echo > /tmp/it-ran"))
        outside = await scene.create(name="outside", command=command_of("../elsewhere.py:echo"))
        refused = [
            await scene.until(pod, "it is refused", lambda found: bool(found.status.container_statuses))
            for pod in (shell, outside)
        ]
        await scene.delete(shell)
        await scene.gone(shell)

    waiting = [program(pod).state.waiting for pod in refused]
    assert [state.reason for state in waiting if state is not None] == ["CreateContainerConfigError"] * 2
    messages = [state.message or "" for state in waiting if state is not None]
    assert messages[0] == (
        "command: local workers run `python -m gpuruntime.framework TARGET` only, got `sh -c echo > /tmp/it-ran`"
    )
    assert messages[1].endswith("/functions only, and '../elsewhere.py:echo' is not there")
    assert [pod.status.phase for pod in refused] == ["Pending", "Pending"]


async def test_a_deleted_pod_ends_its_program_gracefully_and_is_gone_after_that(scene: Scene) -> None:
    async with scene.workers.running():
        pod = await scene.ready(await scene.create())
        directory = scene.witness.socket.parent

        await scene.delete(pod)
        await scene.gone(pod)

        assert [event["pid"] for event in scene.witness.events("end")] == [scene.witness.events("start")[0]["pid"]]
        assert not directory.exists()


async def test_the_worker_of_a_pod_that_is_gone_at_once_is_killed(scene: Scene) -> None:
    async with scene.workers.running():
        pod = await scene.ready(await scene.create())
        (started,) = scene.witness.events("start")

        await scene.delete(pod, "?gracePeriodSeconds=0")

        await ended(started["pid"])
    assert scene.witness.events("end") == []


async def test_the_next_runner_starts_workers_again_and_removes_deleted_pods(scene: Scene) -> None:
    async with scene.workers.running():
        kept = await scene.ready(await scene.create(name="kept"))
        dropped = await scene.ready(await scene.create(name="dropped"))
    await scene.delete(dropped)

    async with scene.workers.running():
        await scene.gone(dropped)
        again = await scene.restarted(kept, 1)

    assert again.metadata.uid == kept.metadata.uid
    assert len(scene.witness.events("start")) == 3


async def test_without_a_runner_a_deleted_pod_goes_at_the_end_of_its_grace(scene: Scene) -> None:
    path = f"/api/v1/namespaces/{scene.namespace}/pods"
    pod = await scene.create(grace=2)
    while "nodeName" not in scene.admin.get(f"{path}/worker")["spec"]:  # noqa: ASYNC110 - nothing watches here
        await asyncio.sleep(0.02)

    await scene.delete(pod)

    while scene.admin.get(path)["items"]:  # noqa: ASYNC110 - nothing watches here
        await asyncio.sleep(0.02)


async def test_pods_of_other_sidecars_are_left_to_kwok(scene: Scene) -> None:
    async with scene.workers.running():
        pod = await scene.ready(await scene.create(image="example.com/gpuruntime:1"))

    assert program(pod).ready
    assert scene.witness.events("start") == []


async def test_everything_ends_with_a_runner_that_is_killed(
    scene: Scene, kube_cluster: ClusterAccess, tmp_path: Path
) -> None:
    command = (sys.executable, "-m", "tests.testing.local_workers.runner_program")
    where = (str(kube_cluster.kubeconfig.parent), scene.namespace, str(tmp_path), str(scene.workers.functions))
    await scene.create()
    runner = await asyncio.create_subprocess_exec(*command, *where, stdout=asyncio.subprocess.PIPE)
    assert runner.stdout is not None
    assert await runner.stdout.readline() == b"ready\n"
    (started,) = scene.witness.events("start")
    directory = scene.witness.socket.parent

    os.kill(runner.pid, signal.SIGKILL)
    await runner.wait()

    await ended(started["pid"])
    while directory.exists():  # noqa: ASYNC110 - removed by another process after its last child
        await asyncio.sleep(0.02)


async def test_its_permissions_are_the_least(scene: Scene, kube_audit: AuditLog) -> None:
    with kube_audit.recording() as seen:
        async with scene.workers.running():
            permissions = scene.workers.permissions
            pod = await scene.ready(await scene.create())
            await scene.delete(pod)
            await scene.gone(pod)
    user = f"system:serviceaccount:{scene.namespace}:"
    (name,) = {request.user for request in seen.requests if request.user.startswith(f"{user}account-")}

    found = usage(permissions, seen.requests, user=name)

    assert found.is_exact, found
