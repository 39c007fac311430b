"""A user keeps data in a storage: one unit at a time has it, and it outlives them."""

from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from e2e.cluster_view import condition, eventually
from e2e.installation import Installation
from e2e.names import GROUP, INSTANCES, VERSION
from e2e.stories.orders import SMALL, order

BUSYBOX = "busybox:1.36"
STORAGES = (GROUP, VERSION, INSTANCES, "gpustorages")
FILL = {"fromImage": BUSYBOX, "command": ["sh", "-c", "echo weights > /workspace/model"]}
# Without a GPU, it runs where volumes are, also in a cluster whose GPU nodes are simulated.
PLAIN = {**SMALL, "gpu": 0, "coldStart": True, "image": BUSYBOX, "template": {"command": ["sleep", "3600"]}}


def test_one_unit_at_a_time_has_a_storage_which_outlives_it_grows_and_is_deleted_when_nobody_has_it(
    installation: Installation, suffix: str
) -> None:
    spec, data = f"kept-{suffix}", f"data-{suffix}"
    api, path = installation.api, f"/gpu-storages/{data}"
    names = first, second, third = [f"keeper-{number}-{suffix}" for number in range(3)]
    orders = {name: unit_with(data, name, spec) for name in names}

    made = api.post("/gpu-storages?wait=Ready&timeout=90", {"name": data, "size": "1Gi", "prepare": FILL})
    mounted = api.post("/gpu-units?wait=Ready&timeout=90", orders[first])
    refused = api.post("/gpu-units", orders[second])
    installation.cluster.custom.create_namespaced_custom_object(
        GROUP, VERSION, INSTANCES, "gpuunits", applied(orders[third])
    )
    waiting = eventually(lambda: because(installation, third, "StorageInUse"), "a unit that waits for the storage")
    kept = api.delete(path)
    with pytest.raises(ApiException) as denied:
        installation.cluster.custom.delete_namespaced_custom_object(*STORAGES, data)
    shown = api.get(path).data
    api.delete(f"/gpu-units/{first}")
    installation.cluster.ready(third)
    taken = eventually(lambda: holder(installation, data) == f"gpuunits/{third}", "the next holder")
    api.delete(f"/gpu-units/{third}")
    eventually(lambda: holder(installation, data) is None, "a storage that is free")
    grown = grow(installation, data)
    gone = api.delete(path)
    deleted = api.get(f"{path}/wait?for=Deleted&timeout=90")

    assert (made.status, made.data["phase"], made.data["prepareStatus"]["phase"]) == (201, "Ready", "Succeeded")
    assert (mounted.status, mounted.data["phase"]) == (201, "Ready")
    assert (refused.status, refused.error["code"]) == (409, "storage_in_use")
    assert first in refused.error["message"]
    assert first in waiting["message"]
    assert (kept.status, kept.error["code"]) == (409, "storage_in_use")
    assert (denied.value.status, first in (denied.value.body or "")) == (403, True)
    assert (shown["attachedTo"], shown["mountedBy"]) == (f"gpuunits/{first}", sorted([first, third]))
    assert taken
    assert grown
    assert (gone.status, deleted.status) == (204, 200)
    assert claim_of(installation, data) is None


def unit_with(storage: str, name: str, spec: str) -> dict[str, Any]:
    mounts = [{"name": storage, "mountPath": "/data"}]
    return {**order(name, spec), **PLAIN, "storageMounts": mounts}


def applied(body: dict[str, Any]) -> dict[str, Any]:
    """The object that a user applies with kubectl instead of sending a request."""
    spec = {key: value for key, value in body.items() if key not in {"operationID", "name", "coldStart"}}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "GPUUnit", "metadata": {"name": body["name"]}, "spec": spec}


def because(installation: Installation, unit: str, reason: str) -> dict[str, Any] | None:
    found = condition(installation.cluster.unit(unit) or {})
    return found if found.get("reason") == reason else None


def holder(installation: Installation, storage: str) -> str | None:
    found: str | None = installation.api.get(f"/gpu-storages/{storage}").data.get("attachedTo")
    return found


def claim_of(installation: Installation, storage: str) -> Any:
    """The PersistentVolumeClaim of a storage."""
    found = installation.cluster.core.list_namespaced_persistent_volume_claim(INSTANCES).items
    return next((claim for claim in found if claim.metadata.name == storage), None)


def grow(installation: Installation, storage: str) -> bool:
    """Ask for twice the size; whether that is the capacity then, or was refused because the class cannot grow."""
    chosen = claim_of(installation, storage).spec.storage_class_name
    expands = installation.kubectl("get", "storageclass", chosen, "-o", "jsonpath={.allowVolumeExpansion}")
    path = f"/gpu-storages/{storage}"
    assert installation.api.put(path, {"size": "2Gi"}).status == 200

    def is_settled() -> bool:
        view = installation.api.get(path).data
        if expands == "true":
            return bool(view["capacity"] == "2Gi")
        return bool(view["phase"] == "Ready" and view["resize"]["phase"] == "Refused")

    return eventually(is_settled, "a volume that has grown")
