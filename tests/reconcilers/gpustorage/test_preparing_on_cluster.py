"""Preparations on a real control plane: each row of the table, once, and what a user reads of it."""

from attrs import evolve

from gpuruntime.api import reasons
from gpuruntime.api.gpustorage import GPUStorage, PrepareStatus
from gpuruntime.api.names import ATTACHED_TO, PREPARE_STARTED, PREPARED, RECOVERY_NONCE, RECOVERY_WIPE
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.kube import MergePatch
from gpuruntime.kube.builtin.batch import Job
from tests.reconcilers.storage_scenes import COPY, WAIT, StorageWorld


def prepare_of(storage: GPUStorage) -> PrepareStatus:
    assert storage.status.prepare is not None
    return storage.status.prepare


async def test_a_program_fills_the_volume_once_and_never_runs_without_its_mark(storages: StorageWorld) -> None:
    with storages.audit.recording() as seen:
        async with storages.operator():
            storages.create(prepare=WAIT)

            running = await storages.because(reasons.PREPARE_RUNNING)
            await storages.ends()
            ready = await storages.because(reasons.STORAGE_READY)
            await storages.no_jobs()

    writes = [(write.verb, write.resource) for write in seen.writes(user=storages.account.username)]
    jobs_and_claims = [write for write in writes if write[1] in {"jobs", "persistentvolumeclaims"}]
    claim = await storages.claim()
    assert claim is not None
    assert jobs_and_claims == [
        ("create", "persistentvolumeclaims"),
        ("create", "jobs"),
        ("patch", "persistentvolumeclaims"),
        ("patch", "jobs"),
        ("patch", "persistentvolumeclaims"),
        ("delete", "jobs"),
    ]
    assert (prepare_of(running).phase, prepare_of(running).attempts) == ("Running", 1)
    assert (prepare_of(ready).phase, prepare_of(ready).recovery_phase) == ("Succeeded", "None")
    assert claim.metadata.annotations[PREPARED] == prepare_of(ready).observed_digest
    assert await storages.writes_of_a_second_pass() == []


async def test_a_failed_program_is_quoted_kept_and_run_again_only_when_asked(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create(prepare=WAIT)

        await storages.ends("3 disk is full")
        failed = await storages.because(reasons.PREPARE_FAILED, "disk is full")
        kept = await storages.job_names()
        quiet = await storages.writes_of_a_second_pass()
        await storages.change({"annotations": {RECOVERY_NONCE: "order-7"}})
        running = await storages.until("runs again", lambda found: prepare_of(found).attempts == 2)
        jobs = (await storages.client.list(Job, storages.namespace)).items
        await storages.ends()
        ready = await storages.because(reasons.STORAGE_READY)
        await storages.no_jobs()

    [second] = [job for job in jobs if job.metadata.name == prepare_of(running).job_name]
    assert prepare_of(failed).job_name in kept
    assert (prepare_of(failed).phase, prepare_of(failed).recovery_phase) == ("Failed", "Required")
    assert "exit code 3" in (prepare_of(failed).message or "")
    assert quiet == []
    assert (prepare_of(running).recovery_phase, prepare_of(running).recovery_nonce) == ("Running", "order-7")
    assert [container.name for container in second.spec.template.spec.init_containers] == ["wipe"]
    assert (prepare_of(ready).attempts, prepare_of(ready).recovery_phase) == (2, "Succeeded")
    assert await storages.writes_of_a_second_pass() == []


async def test_a_program_that_hangs_fails_by_its_timeout(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create(prepare={**WAIT, "timeoutSeconds": 1})

        failed = await storages.because(reasons.PREPARE_FAILED, "DeadlineExceeded")

    assert (prepare_of(failed).phase, prepare_of(failed).recovery_phase) == ("Failed", "Required")
    assert await storages.writes_of_a_second_pass() == []


async def test_a_lost_job_is_not_repeated_unasked_and_a_recovery_may_keep_the_files(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create(prepare=WAIT)
        running = await storages.because(reasons.PREPARE_RUNNING)
        await storages.running_pod()

        await storages.client.delete(
            Job, prepare_of(running).job_name or "", storages.namespace, propagation="Background"
        )
        lost = await storages.because(reasons.PREPARE_OUTCOME_LOST)
        await storages.no_jobs()
        quiet = await storages.writes_of_a_second_pass()
        await storages.change({"annotations": {RECOVERY_NONCE: "order-7", RECOVERY_WIPE: "false"}})
        await storages.until("runs again", lambda found: prepare_of(found).attempts == 2)
        [job] = (await storages.client.list(Job, storages.namespace)).items
        await storages.ends()
        await storages.because(reasons.STORAGE_READY)

    assert prepare_of(lost).phase == "Failed"
    assert quiet == []
    assert job.spec.template.spec.init_containers == ()


async def test_a_copy_waits_for_its_source_locks_it_and_does_not_need_it_afterwards(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create("copy", prepare={"fromStorageName": "data"})
        missing = await storages.because(reasons.PREPARE_PENDING, "does not exist", name="copy")
        storages.create()
        await storages.because(reasons.STORAGE_READY)
        pod = await storages.running_pod("copy")
        await storages.because(reasons.PREPARE_RUNNING, name="copy")
        locked = await storages.until("is locked", lambda found: found.status.attached_to == "gpustorages/copy")

        await storages.ends(name="copy")
        await storages.because(reasons.STORAGE_READY, name="copy")
        await storages.until("is free", lambda found: lock_of(found.metadata) is None)
        await storages.client.delete(GPUStorage, "data", storages.namespace)
        await storages.gone()
        after = await storages.because(reasons.STORAGE_READY, name="copy")

    assert prepare_of(missing).phase == "Pending"
    assert locked.metadata.annotations[ATTACHED_TO] == "gpustorages/copy"
    assert {volume.name for volume in pod.spec.volumes} >= {"workspace", "source"}
    assert prepare_of(after).phase == "Succeeded"
    assert await storages.writes_of_a_second_pass() == []


async def test_a_copy_waits_while_a_unit_has_its_source_and_releases_only_its_own_lock(storages: StorageWorld) -> None:
    holder = {ATTACHED_TO: "gpuunits/demo"}
    async with storages.operator():
        storages.create()
        await storages.because(reasons.STORAGE_READY)
        await storages.change({"annotations": holder})
        storages.create("copy", prepare={"fromStorageName": "data"})

        waiting = await storages.because(reasons.PREPARE_PENDING, "in use by gpuunits/demo", name="copy")
        jobs = await storages.job_names()
        await storages.change({"annotations": {ATTACHED_TO: None}})
        await storages.ends("1 no space", name="copy")
        await storages.because(reasons.PREPARE_FAILED, name="copy")
        await storages.until("is free", lambda found: lock_of(found.metadata) is None)

    assert prepare_of(waiting).phase == "Pending"
    assert jobs == []


async def test_a_class_that_clones_needs_no_job(storages: StorageWorld) -> None:
    rendering = evolve(COPY, clone_classes=frozenset({storages.volumes.classes.clone}))
    async with storages.operator(rendering):
        storages.create(of=storages.volumes.classes.clone)
        await storages.because(reasons.STORAGE_READY)
        storages.volumes.hold(storages.key("copy"))

        storages.create("copy", of=storages.volumes.classes.clone, prepare={"fromStorageName": "data"})
        cloning = await storages.because(reasons.PREPARE_RUNNING, "being cloned", name="copy")
        locked = await storages.until("is locked", lambda found: lock_of(found.metadata) is not None)
        storages.volumes.release(storages.key("copy"))
        await storages.because(reasons.STORAGE_READY, name="copy")
        await storages.until("is free", lambda found: lock_of(found.metadata) is None)

    claim = await storages.claim("copy")
    assert claim is not None
    assert claim.spec.data_source is not None
    assert claim.spec.data_source.name == "data"
    assert PREPARED in claim.metadata.annotations
    assert prepare_of(cloning).job_name is None
    assert locked.metadata.annotations[ATTACHED_TO] == "gpustorages/copy"
    assert await storages.job_names() == []
    assert await storages.writes_of_a_second_pass(rendering) == []


async def test_a_late_binding_volume_is_made_where_its_preparation_runs(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create(of=storages.volumes.classes.late, prepare=WAIT)

        await storages.ends()
        ready = await storages.because(reasons.STORAGE_READY)

    assert ready.status.capacity == "1Gi"
    assert await storages.writes_of_a_second_pass() == []


async def test_a_job_that_another_client_suspends_is_not_resumed_a_second_time(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create(prepare=WAIT)
        running = await storages.because(reasons.PREPARE_RUNNING)
        job = prepare_of(running).job_name or ""
        await storages.running_pod()

        await storages.client.patch(Job, job, storages.namespace, MergePatch({"spec": {"suspend": True}}))
        stopped = await storages.because(reasons.PREPARE_RUNNING, "suspended by another client")
        quiet = await storages.writes_of_a_second_pass()

    claim = await storages.claim()
    assert claim is not None
    assert prepare_of(stopped).attempts == 1
    assert PREPARE_STARTED in claim.metadata.annotations
    assert quiet == []
