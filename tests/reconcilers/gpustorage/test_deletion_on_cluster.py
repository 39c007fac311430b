"""Deletions on a real control plane: data goes with its storage only, and never while something uses it."""

from gpuruntime.api import reasons
from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.names import ATTACHED_TO
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from tests.reconcilers.storage_scenes import WAIT, StorageWorld


def run_pod(storages: StorageWorld, name: str) -> None:
    body = {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "x", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "terminationGracePeriodSeconds": 0,
        },
    }
    storages.access.admin().create(f"/api/v1/namespaces/{storages.namespace}/pods", body)


async def test_a_storage_goes_with_its_data_once_neither_a_lock_nor_a_pod_is_left(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create()
        await storages.because(reasons.STORAGE_READY)
        await storages.change({"annotations": {ATTACHED_TO: "gpuunits/demo"}})
        run_pod(storages, "stranger")
        await storages.pods.until(lambda store: bool(store.list(storages.namespace).items))

        await storages.client.delete(GPUStorage, "data", storages.namespace)
        locked = await storages.because(reasons.STORAGE_DELETING, "gpuunits/demo has released it")
        quiet = await storages.writes_of_a_second_pass()
        await storages.change({"annotations": {ATTACHED_TO: None}})
        mounted = await storages.because(reasons.STORAGE_DELETING, "stranger")
        untouched = await storages.claim()
        await storages.client.delete(Pod, "stranger", storages.namespace)
        await storages.gone()

    assert (locked.status.phase, mounted.status.phase) == ("Pending", "Pending")
    assert quiet == []
    assert untouched is not None
    assert untouched.metadata.deletion_timestamp is None
    assert await storages.claim() is None


async def test_a_deletion_within_a_copy_ends_the_job_and_frees_the_source(storages: StorageWorld) -> None:
    with storages.audit.recording() as seen:
        async with storages.operator():
            storages.create()
            await storages.because(reasons.STORAGE_READY)
            storages.create("copy", prepare={"fromStorageName": "data"})
            await storages.running_pod("copy")

            await storages.client.delete(GPUStorage, "copy", storages.namespace)
            await storages.gone("copy")
            source = await storages.until("is free", lambda found: lock_of(found.metadata) is None)

    deletions = [write.resource for write in seen.writes(user=storages.account.username) if write.verb == "delete"]
    assert deletions == ["jobs", "persistentvolumeclaims"]
    assert source.metadata.deletion_timestamp is None
    assert await storages.claim("copy") is None
    assert await storages.claim() is not None
    assert await storages.job_names() == []


async def test_a_claim_of_others_and_one_whose_record_is_lost_outlive_a_storage(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create(prepare=WAIT)
        await storages.ends()
        await storages.because(reasons.STORAGE_READY)
    await storages.change({"finalizers": None})
    await storages.client.delete(GPUStorage, "data", storages.namespace)
    await storages.gone()
    left = await storages.claim()

    async with storages.operator():
        storages.create()
        await storages.because(reasons.FOREIGN_OBJECT)
        await storages.client.delete(GPUStorage, "data", storages.namespace)
        await storages.gone()
        kept = await storages.claim()
        storages.create(adoptClaimUID=left.metadata.uid if left else "", prepare=WAIT)
        restored = await storages.because(reasons.STORAGE_READY)

    assert left is not None
    assert kept is not None
    assert kept.metadata.resource_version == left.metadata.resource_version
    assert restored.status.prepare is not None
    assert restored.status.prepare.phase == "Succeeded"
    assert await storages.job_names() == []


async def test_a_claim_that_another_client_deletes_is_lost_and_the_storage_can_still_go(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create()
        await storages.because(reasons.STORAGE_READY)
        run_pod(storages, "holds-it")

        await storages.client.delete(PersistentVolumeClaim, "data", storages.namespace)
        lost = await storages.because(reasons.CLAIM_LOST, "is being deleted")
        await storages.client.delete(Pod, "holds-it", storages.namespace)
        await storages.client.delete(GPUStorage, "data", storages.namespace)
        await storages.gone()

    assert lost.status.phase == "Failed"
