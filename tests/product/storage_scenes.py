"""A storage in an installed product, on a volume that an administrator made by hand."""

from contextlib import suppress
from typing import Any

from gpuruntime.api.names import ATTACHED_TO
from gpuruntime.api.namespaces import INSTANCE_NAMESPACE
from gpuruntime.service.units.create import CreateUnit
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.testing import RefusedError
from tests.mount_scenes import mounting
from tests.product.installed_scenes import Shop
from tests.product_scenes import eventually

__all__ = ["keep_a_storage"]

_STORAGES = f"/apis/runtime.lokiwager.io/v1alpha1/namespaces/{INSTANCE_NAMESPACE}/gpustorages"
_CLASS = "by-hand"


async def keep_a_storage(shop: Shop) -> None:
    """Create a storage, fill it by a program, lend it to a unit until its pods are gone, show its files, and
    delete it.
    """
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": _CLASS,
        "hostPath": {"path": "/nowhere"},
        "claimRef": {"namespace": INSTANCE_NAMESPACE, "name": "data"},
    }
    shop.admin.create("/api/v1/persistentvolumes", {"metadata": {"name": _CLASS}, "spec": volume})
    prepare = {"fromImage": "fill:1", "args": ["fill"]}
    spec = {"size": "1Gi", "storageClassName": _CLASS, "prepare": prepare, "accessor": {"enabled": True}}
    body = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUStorage",
        "metadata": {"name": "data"},
        "spec": spec,
    }
    shop.admin.create(_STORAGES, body)
    await eventually(lambda: (_storage(shop) or {}).get("status", {}).get("phase") == "Ready")
    units = shop.server.service.units
    await units.create("lend", CreateUnit("borrower", mounting("data"), cold_start=True))
    await shop.ready("borrower")
    await units.delete("give-back", DeleteUnit("borrower"))
    await eventually(lambda: ATTACHED_TO not in (_storage(shop) or {})["metadata"].get("annotations", {}))
    await eventually(lambda: (_storage(shop) or {})["status"]["accessor"]["phase"] == "Ready")
    shop.admin.delete(f"{_STORAGES}/data")
    await eventually(lambda: _storage(shop) is None)


def _storage(shop: Shop) -> dict[str, Any] | None:
    """The storage as it is on the server, None if there is none."""
    with suppress(RefusedError):
        return dict(shop.admin.get(f"{_STORAGES}/data"))
    return None
