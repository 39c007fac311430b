"""A storage without preparation on a real control plane. After a scene the operator starts anew, and writes nothing."""

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import ATTACHED_TO, OWNER_UID, STORAGE_FINALIZER, STORAGE_LABEL
from gpuruntime.kube import MergePatch
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import find_condition
from tests.product_scenes import create_unit
from tests.reconcilers.storage_scenes import StorageWorld


async def test_a_storage_gets_a_volume_without_owner_reference_and_is_ready_when_it_is_bound(
    storages: StorageWorld,
) -> None:
    storages.volumes.hold(storages.key())
    async with storages.operator():
        storages.create()

        waiting = await storages.because(reasons.STORAGE_PENDING, "has not made it yet")
        storages.volumes.release(storages.key())
        ready = await storages.because(reasons.STORAGE_READY)

    claim = await storages.claim()
    assert claim is not None
    assert (waiting.status.phase, ready.status.phase) == ("Pending", "Ready")
    assert (ready.status.claim_name, ready.status.capacity) == ("data", "1Gi")
    assert ready.status.observed_generation == ready.metadata.generation
    assert ready.metadata.finalizers == (STORAGE_FINALIZER,)
    assert claim.metadata.owner_references == ()
    assert claim.metadata.annotations[OWNER_UID] == ready.metadata.uid
    assert claim.metadata.labels[STORAGE_LABEL] == "data"
    assert claim.spec.access_modes == ("ReadWriteOnce",)
    assert await storages.writes_of_a_second_pass() == []


async def test_a_late_binding_storage_can_be_mounted_before_its_volume_exists(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create(of=storages.volumes.classes.late)

        ready = await storages.because(reasons.WAITS_FOR_FIRST_CONSUMER)

    found = find_condition(ready.status.conditions, "Ready")
    assert found is not None
    assert (found.status, ready.status.phase, ready.status.capacity) == ("True", "Ready", None)
    assert await storages.writes_of_a_second_pass() == []


async def test_an_existing_claim_is_foreign_until_its_uid_is_named(storages: StorageWorld) -> None:
    body = {
        "metadata": {"name": "data", "annotations": {"theirs": "kept"}},
        "spec": {
            "storageClassName": storages.volumes.classes.immediate,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    storages.access.admin().create(f"/api/v1/namespaces/{storages.namespace}/persistentvolumeclaims", body)
    before = await storages.volumes.bound(storages.key())
    async with storages.operator():
        storages.create(prepare={"fromImage": "fill:1", "args": ["fill"]})

        foreign = await storages.because(reasons.FOREIGN_OBJECT, before.metadata.uid)
        untouched = await storages.claim()
        await storages.change(adoptClaimUID=before.metadata.uid)
        adopted = await storages.because(reasons.STORAGE_READY)

    after = await storages.claim()
    assert untouched is not None
    assert after is not None
    assert foreign.status.phase == "Failed"
    assert untouched.metadata.resource_version == before.metadata.resource_version
    assert after.metadata.annotations[OWNER_UID] == adopted.metadata.uid
    assert after.metadata.annotations["theirs"] == "kept"
    assert adopted.status.prepare is not None
    assert adopted.status.prepare.phase == "Succeeded"
    assert await storages.job_names() == []
    assert await storages.writes_of_a_second_pass() == []


async def test_labels_and_owner_references_on_the_claim_are_mended_and_other_fields_kept(
    storages: StorageWorld,
) -> None:
    async with storages.operator():
        storages.create()
        ready = await storages.because(reasons.STORAGE_READY)
        kind, uid = ready.KIND, ready.metadata.uid
        # An owner that exists: with another one the garbage collector would delete the claim at once.
        owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "data", "uid": uid}
        meddled = {
            "labels": {STORAGE_LABEL: None, "mine": "kept"},
            "annotations": {"mine": "kept"},
            "ownerReferences": [owner],
        }

        patch = MergePatch({"metadata": meddled})
        await storages.client.patch(PersistentVolumeClaim, "data", storages.namespace, patch)
        await storages.claims.until(
            lambda store: any(
                claim.metadata.labels.get(STORAGE_LABEL) == "data" and "mine" in claim.metadata.labels
                for claim in store.list(storages.namespace).items
            )
        )
        mended = await storages.claim()

    assert mended is not None
    assert mended.metadata.owner_references == ()
    assert mended.metadata.annotations["mine"] == "kept"
    assert mended.spec.volume_name


async def test_lost_data_is_reported_and_never_replaced_by_an_empty_volume(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create("disk")
        storages.create("record")
        await storages.because(reasons.STORAGE_READY, name="disk")
        await storages.because(reasons.STORAGE_READY, name="record")

        await storages.volumes.lose(storages.key("disk"))
        await storages.client.delete(PersistentVolumeClaim, "record", storages.namespace)
        disk = await storages.because(reasons.CLAIM_LOST, "is gone", name="disk")
        record = await storages.because(reasons.CLAIM_LOST, "does not exist", name="record")

    assert (disk.status.phase, record.status.phase) == ("Failed", "Failed")
    assert record.status.capacity == "1Gi"
    assert await storages.claim("record") is None
    assert await storages.writes_of_a_second_pass() == []


async def test_a_claim_that_never_was_bound_is_made_again(storages: StorageWorld) -> None:
    storages.volumes.hold(storages.key())
    async with storages.operator():
        storages.create()
        await storages.because(reasons.STORAGE_PENDING)
        first = await storages.claim()

        await storages.client.delete(PersistentVolumeClaim, "data", storages.namespace)
        storages.volumes.release(storages.key())
        await storages.because(reasons.STORAGE_READY)

    second = await storages.claim()
    assert first is not None
    assert second is not None
    assert first.metadata.uid != second.metadata.uid


async def test_a_storage_says_what_the_cluster_lacks_and_heals(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create(of="no-such-class")
        missing = await storages.because(reasons.STORAGE_PENDING, "no-such-class does not exist")

    assert missing.status.phase == "Pending"
    assert await storages.writes_of_a_second_pass() == []


async def test_the_units_that_name_a_storage_and_its_holder_are_shown(storages: StorageWorld) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    async with storages.operator():
        storages.create()
        create_unit(storages.access.admin(), storages.namespace, "demo", storageMounts=mounts)
        await storages.change({"annotations": {ATTACHED_TO: "gpuunits/demo"}})

        used = await storages.until("is used", lambda found: found.status.mounted_by == ("demo",))
        attached = await storages.until("is attached", lambda found: found.status.attached_to == "gpuunits/demo")
        await storages.because(reasons.STORAGE_READY)
        quiet = await storages.writes_of_a_second_pass()
        await storages.client.delete(GPUUnit, "demo", storages.namespace)
        await storages.change({"annotations": {ATTACHED_TO: None}})
        await storages.until("is free", lambda found: not found.status.mounted_by and found.status.attached_to is None)

    assert used.metadata.uid == attached.metadata.uid
    assert quiet == []


async def test_an_invalid_spec_that_is_stored_touches_nothing(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create(of="No_Such Name")

        invalid = await storages.because(reasons.INVALID_SPEC, "spec.storageClassName")

    assert (invalid.metadata.finalizers, invalid.status.observed_generation) == ((), None)
    assert await storages.claim() is None
    assert await storages.writes_of_a_second_pass() == []


async def test_a_claim_that_a_quota_refuses_is_quoted_and_made_when_there_is_room(storages: StorageWorld) -> None:
    admin, quotas = storages.access.admin(), f"/api/v1/namespaces/{storages.namespace}/resourcequotas"
    admin.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"persistentvolumeclaims": "0"}}})
    async with storages.operator():
        storages.create()

        refused = await storages.because(reasons.PVC_SYNC_FAILED, "exceeded quota")
        admin.delete(f"{quotas}/none")
        await storages.because(reasons.STORAGE_READY)

    assert refused.status.phase == "Failed"
