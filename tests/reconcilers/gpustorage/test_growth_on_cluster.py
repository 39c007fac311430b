"""Growing volumes on a real control plane: the storage stays ready, and says how far it is."""

from gpuruntime.api import reasons
from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.meta import is_true
from tests.reconcilers.storage_scenes import StorageWorld


def phase_of(storage: GPUStorage) -> str | None:
    assert is_true(storage.status.conditions, "Ready")
    return None if storage.status.resize is None else storage.status.resize.phase


async def test_a_storage_grows_waits_for_a_pod_and_can_be_lowered_again(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create()
        await storages.because(reasons.STORAGE_READY)

        storages.volumes.stall_resize(storages.key())
        await storages.change(size="3Gi")
        growing = await storages.until("is growing", lambda found: phase_of(found) == "Growing")
        await storages.change(size="2Gi")
        await storages.until("is lowered", lambda found: found.status.observed_generation == found.metadata.generation)
        storages.volumes.need_restart(storages.key())
        waiting = await storages.until("needs a restart", lambda found: phase_of(found) == "NeedsRestart")
        storages.volumes.release(storages.key())
        grown = await storages.until("has grown", lambda found: found.status.capacity == "2Gi")

    assert growing.status.capacity == "1Gi"
    assert waiting.status.resize is not None
    assert phase_of(grown) is None
    assert await storages.writes_of_a_second_pass() == []


async def test_a_size_that_cannot_be_had_is_refused_with_the_reason(storages: StorageWorld) -> None:
    late, fixed = storages.volumes.classes.late, storages.volumes.classes.fixed
    async with storages.operator():
        storages.create("fixed", of=fixed)
        storages.create("late", of=late)
        storages.create("full")
        await storages.because(reasons.STORAGE_READY, name="fixed")
        await storages.because(reasons.WAITS_FOR_FIRST_CONSUMER, name="late")
        await storages.because(reasons.STORAGE_READY, name="full")

        storages.volumes.refuse_resize(storages.key("full"))
        for name in ("fixed", "late", "full"):
            await storages.change(size="2Gi", name=name)
        by_class = await storages.until("is refused", lambda found: phase_of(found) == "Refused", "fixed")
        unbound = await storages.until("is refused", lambda found: phase_of(found) == "Refused", "late")
        by_pool = await storages.until(
            "says why",
            lambda found: "cannot grow" in str(found.status.resize and found.status.resize.message),
            "full",
        )

    messages = [str(storage.status.resize and storage.status.resize.message) for storage in (by_class, unbound)]
    assert "allowVolumeExpansion" in messages[0]
    assert "not bound yet" in messages[1]
    assert phase_of(by_pool) in {"Refused", "Growing"}
    assert await storages.writes_of_a_second_pass() == []


async def test_a_refusal_of_the_api_server_is_quoted_and_the_size_taken_back(storages: StorageWorld) -> None:
    admin, quotas = storages.access.admin(), f"/api/v1/namespaces/{storages.namespace}/resourcequotas"
    async with storages.operator():
        storages.create()
        await storages.because(reasons.STORAGE_READY)
        admin.create(quotas, {"metadata": {"name": "small"}, "spec": {"hard": {"requests.storage": "1Gi"}}})

        await storages.change(size="2Gi")
        refused = await storages.until("is refused", lambda found: phase_of(found) == "Refused")
        admin.delete(f"{quotas}/small")
        grown = await storages.until("has grown", lambda found: found.status.capacity == "2Gi")

    assert "exceeded quota" in str(refused.status.resize and refused.status.resize.message)
    assert phase_of(grown) is None


async def test_a_volume_that_is_larger_than_asked_for_is_fine(storages: StorageWorld) -> None:
    async with storages.operator():
        storages.create(size="1500Mi")
        ready = await storages.because(reasons.STORAGE_READY)

        status = f"/api/v1/namespaces/{storages.namespace}/persistentvolumeclaims/data/status"
        storages.access.admin().merge(status, {"status": {"capacity": {"storage": "2Gi"}}})
        larger = await storages.until("is larger", lambda found: found.status.capacity == "2Gi")

    assert ready.status.capacity == "1500Mi"
    assert phase_of(larger) is None
