from typing import Any

from gpuruntime.api.names import ATTACHED_TO, ATTACHED_UID
from tests.service.reads.test_metrics import figures, stocked, thing, unit


def storage(name: str, phase: str = "", reason: str = "", holder: tuple[str, str] = ("", ""), **parts: Any) -> Any:
    """A storage with a phase, the reason of its Ready condition, and the name and UID of a holder."""
    annotations = {ATTACHED_TO: holder[0], ATTACHED_UID: holder[1]} if holder[0] else {}
    conditions = [{"type": "Ready", "status": "False", "reason": reason}] if reason else []
    status = {"phase": phase or None, "conditions": conditions, **parts.pop("status", {})}
    metadata = {"annotations": annotations, **parts.pop("metadata", {})}
    spec = {"size": "1Gi", **parts.pop("spec", {})}
    return thing(name, "runtime-instance", spec=spec, status=status, metadata=metadata)


async def test_storages_are_counted_by_phase_reason_preparation_accessor_and_resize() -> None:
    ready = {"prepare": {"phase": "Succeeded"}, "accessor": {"phase": "Ready"}, "resize": {"phase": "Refused"}}
    storages = (
        storage("a", "Ready", status=ready),
        storage("b"),
        storage("c", "Failed", "ClaimLost"),
        storage("d", "Failed", "PrepareFailed", status={"prepare": {"phase": "Failed"}}),
        storage("e", "Failed", "Unheard", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    )

    async with stocked([], [], [], storages) as registry:
        shown = {
            name: figures(registry, f"gpuruntime_{name}")
            for name in (
                *("storages", "storages_failed", "storages_deleting"),
                *("storage_preparations", "storage_accessors", "storage_resizes"),
            )
        }

    assert shown == {
        "storages": {("Pending",): 1, ("Ready",): 1, ("Failed",): 3},
        "storages_failed": {("ClaimLost",): 1, ("PrepareFailed",): 1, ("other",): 1},
        "storages_deleting": {(): 1},
        "storage_preparations": {("NotRequested",): 3, ("Succeeded",): 1, ("Failed",): 1},
        "storage_accessors": {("Disabled",): 4, ("Ready",): 1},
        "storage_resizes": {("Refused",): 1},
    }


async def test_a_lock_is_void_without_a_holder_that_names_the_storage() -> None:
    mounts = {"storageMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("a", "b", "d")]}
    demo = unit("demo", "runtime-instance")
    demo["spec"] |= mounts
    storages = (
        storage("a", holder=("gpuunits/demo", "demo")),
        storage("b", holder=("gpuunits/demo", "")),
        storage("c", holder=("gpuunits/demo", "demo")),
        storage("d", holder=("gpuunits/demo", "an earlier one")),
        storage("e", holder=("gpuunits/gone", "gone")),
        storage("f", holder=("gpustorages/copy", "copy")),
        storage("copy", spec={"prepare": {"fromStorageName": "f"}}),
    )

    async with stocked([demo], [], [], storages) as registry:
        locks = figures(registry, "gpuruntime_storage_locks")

    assert locks == {("held",): 3, ("void",): 3}
