"""A storage in an installed product, on a volume that an administrator made by hand."""

from contextlib import suppress
from typing import Any

from gpuruntime.api.namespaces import INSTANCE_NAMESPACE
from gpuruntime.testing import RefusedError
from tests.product.installed_scenes import Shop
from tests.product_scenes import eventually

__all__ = ["keep_a_storage"]

_STORAGES = f"/apis/runtime.lokiwager.io/v1alpha1/namespaces/{INSTANCE_NAMESPACE}/gpustorages"
_CLASS = "by-hand"


async def keep_a_storage(shop: Shop) -> None:
    """Create a storage, fill it by a program, and delete it."""
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": _CLASS,
        "hostPath": {"path": "/nowhere"},
        "claimRef": {"namespace": INSTANCE_NAMESPACE, "name": "data"},
    }
    shop.admin.create("/api/v1/persistentvolumes", {"metadata": {"name": _CLASS}, "spec": volume})
    spec = {"size": "1Gi", "storageClassName": _CLASS, "prepare": {"fromImage": "fill:1", "args": ["fill"]}}
    body = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUStorage",
        "metadata": {"name": "data"},
        "spec": spec,
    }
    shop.admin.create(_STORAGES, body)
    await eventually(lambda: (_storage(shop) or {}).get("status", {}).get("phase") == "Ready")
    shop.admin.delete(f"{_STORAGES}/data")
    await eventually(lambda: _storage(shop) is None)


def _storage(shop: Shop) -> dict[str, Any] | None:
    """The storage as it is on the server, None if there is none."""
    with suppress(RefusedError):
        return dict(shop.admin.get(f"{_STORAGES}/data"))
    return None
