"""Workers of functions in an installed product, on nodes that pretend to run them."""

from typing import Any

from gpuruntime.api.namespaces import INSTANCE_NAMESPACE
from gpuruntime.desired.functions.network_policy import policy_name
from gpuruntime.meta import ObjectKey
from tests.product.installed_scenes import Shop
from tests.product_scenes import create_unit, eventually

__all__ = ["keep_workers"]

_FUNCTIONS = f"/apis/runtime.lokiwager.io/v1alpha1/namespaces/{INSTANCE_NAMESPACE}/gpufunctions"
_POLICY = f"/apis/networking.k8s.io/v1/namespaces/{INSTANCE_NAMESPACE}/networkpolicies/{policy_name('kept')}"


async def keep_workers(shop: Shop) -> None:
    """Create a function with a worker, mend its network policy, and take the worker back; let a unit make another."""
    spec = {"specName": "g1.1", "cpu": "10m", "memory": "16Mi", "scaling": {"minWorkers": 1}}
    body = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUFunction",
        "metadata": {"name": "kept"},
        "spec": spec,
    }
    shop.admin.create(_FUNCTIONS, body)
    await shop.ready("kept-1")
    shop.admin.merge(_POLICY, {"spec": {"egress": [{}]}})
    await eventually(lambda: len(shop.admin.get(_POLICY)["spec"]["egress"]) > 1)
    shop.admin.merge(f"{_FUNCTIONS}/kept", {"spec": {"scaling": {"minWorkers": 0}}})
    await shop.observer.units.until(lambda store: store.get(ObjectKey(INSTANCE_NAMESPACE, "kept-1")) is None)

    create_unit(shop.admin, INSTANCE_NAMESPACE, "joiner", serverless={"requestID": "made"})
    await shop.ready("joiner")
    await eventually(lambda: _ready(shop, "made") == 1)


def _ready(shop: Shop, name: str) -> int:
    status: dict[str, Any] = shop.admin.get(f"{_FUNCTIONS}/{name}").get("status", {})
    return int(status.get("workers", {}).get("ready", 0))
