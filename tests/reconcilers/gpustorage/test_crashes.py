"""The GPUStorage operator dies at every write, misses answers and events, and ends where it would have ended."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec, StoragePrepare
from gpuruntime.api.names import PREPARE_STARTED, RECOVERY_NONCE, STORAGE_PREPARE_LABEL
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Manager, ManagerOptions
from gpuruntime.desired.storage.marks import Marks
from gpuruntime.kube.builtin.batch import Job
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectMeta, is_true
from gpuruntime.reconcilers.gpustorage.reconciler import GPUStorageOptions, install_gpustorage
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.crashing import Launch, Moment, Scenario, Stage, World, everything, explore, sample
from gpuruntime.testing.volumes.fake_volumes import FakeVolumes

FILL = StoragePrepare(from_image="wait.invalid/fill:1", args=("fill",))
COPY = StoragePrepare(from_storage_name="data")
EXIT = "testing.gpuruntime.local/exit"


async def operator(launch: Launch) -> None:
    manager = Manager(launch.credentials, ManagerOptions("gpu-runtime-operator", grace=1.0))
    install_gpustorage(manager, GPUStorageOptions(Namespaces((launch.namespace(),), ("none",))))
    await manager.run()


async def act(stage: Stage, storage_class: str) -> None:
    """A storage whose preparation fails, is recovered and succeeds, then grows; a copy of it; then it is deleted."""
    namespace = stage.namespace()
    create = partial(_create, stage, storage_class)
    await create("data", FILL)
    await _ends(stage, "3", 1)
    await stage.until(lambda world: _prepare(world, "data") == "Failed")
    nonce = MergePatch({"metadata": {"annotations": {RECOVERY_NONCE: "order-7"}}})
    await stage.client.patch(GPUStorage, "data", namespace, nonce)
    await _ends(stage, "0", 2)
    await stage.until(lambda world: "data" in _ready(world))
    await stage.client.patch(GPUStorage, "data", namespace, MergePatch({"spec": {"size": "2Gi"}}))
    await create("copy", COPY)
    await stage.until(lambda world: _ready(world) == ["copy", "data"])
    await stage.client.delete(GPUStorage, "data", namespace)


async def _create(stage: Stage, storage_class: str, name: str, prepare: StoragePrepare) -> None:
    spec = GPUStorageSpec("1Gi", storage_class_name=storage_class, prepare=prepare)
    await stage.client.create(GPUStorage(ObjectMeta(name=name, namespace=stage.namespace()), spec))


async def _ends(stage: Stage, code: str, number: int) -> None:
    """Have the program of an attempt end with this code."""

    def running(world: World) -> list[Pod]:
        return [
            pod
            for pod in world.list(Pod)
            if pod.metadata.labels.get("job-name", "").endswith(f"-{number}") and pod.status.phase == "Running"
        ]

    await stage.until(lambda world: bool(running(world)))
    [pod] = running(stage.recorder.world)
    patch = MergePatch({"metadata": {"annotations": {EXIT: code}}})
    await stage.client.patch(Pod, pod.metadata.name, stage.namespace(), patch)


def _prepare(world: World, name: str) -> str | None:
    found = world.get(GPUStorage, name)
    return None if found is None or found.status.prepare is None else found.status.prepare.phase


def _ready(world: World) -> list[str]:
    found = world.list(GPUStorage)
    return sorted(storage.metadata.name for storage in found if is_true(storage.status.conditions, "Ready"))


def is_settled(world: World) -> bool:
    names = [storage.metadata.name for storage in world.list(GPUStorage)]
    claims = [claim.metadata.name for claim in world.list(PersistentVolumeClaim)]
    return names == claims == _ready(world) == ["copy"] and not world.list(Job)


def broken(moment: Moment) -> str | None:
    """What must not be in any state: a program without its mark, or data that goes before its storage."""
    world = moment.world
    claims = {claim.metadata.name: claim for claim in world.list(PersistentVolumeClaim)}
    jobs = [job for job in world.list(Job) if not job.spec.suspend]
    for job in jobs:
        claim = claims.get(job.metadata.labels[STORAGE_PREPARE_LABEL])
        marks = Marks.of({} if claim is None else claim.metadata.annotations)
        uids = None if marks.started is None else marks.started.job_uid
        is_over = is_true(job.status.conditions, "Failed") or is_true(job.status.conditions, "Complete")
        if claim is not None and uids != job.metadata.uid and not is_over:
            return f"Job {job.metadata.name} runs, and {PREPARE_STARTED} names {uids}"
    for claim in claims.values():
        storage = world.get(GPUStorage, claim.metadata.name)
        is_kept = storage is not None and storage.metadata.deletion_timestamp is None
        if claim.metadata.deletion_timestamp is not None and is_kept:
            return f"the data of {claim.metadata.name} goes before its storage"
    return None


def scenario(volumes: FakeVolumes) -> Scenario:
    acts: Callable[[Stage], Awaitable[None]] = partial(act, storage_class=volumes.classes.immediate)
    return Scenario(
        name="a storage is prepared, recovered, grown, copied and deleted",
        kinds=(GPUStorage, PersistentVolumeClaim, Job, Pod),
        act=acts,
        settled=is_settled,
        invariant=broken,
        replacements=((r"-[0-9a-f]{10}-(\d+)", r"-HASH-\1"),),
        ignored_resources=("leases", "events"),
        timeout=120.0,
    )


async def test_a_sample_of_crashes_failures_and_lags_ends_in_the_same_state(
    product: ClusterAccess, kube_volumes: FakeVolumes, tmp_path: Path
) -> None:
    async with kube_volumes.running(within=280):
        report = await explore(scenario(kube_volumes), operator, product, tmp_path, plans=sample(3), max_parallel=2)

    report.check()


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_every_crash_failure_and_lag_ends_in_the_same_state(
    product: ClusterAccess, kube_volumes: FakeVolumes, tmp_path: Path
) -> None:
    async with kube_volumes.running(within=3500):
        report = await explore(scenario(kube_volumes), operator, product, tmp_path, plans=everything, max_parallel=4)

    report.check()
