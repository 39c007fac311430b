"""The product as it is shipped: its manifests on a cluster of its own, and its manager with the account in them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.roles import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import Informer, wait_for
from gpuruntime.control.informers.waiting import Predicate
from gpuruntime.kube.kubeconfig import from_kubeconfig
from gpuruntime.meta import ObjectKey, find_condition
from gpuruntime.processes.product import Product, build_product
from gpuruntime.testing import AdminClient, ClusterAccess
from tests.control.scenes import managing
from tests.product_scenes import Onlooker, eventually, looking_on
from tests.service.service_scenes import looking_at

__all__ = ["MANAGER", "POOLS", "Installed", "Shop", "installed", "shop"]

MANAGER: Final = "gpuruntime-manager"
POOLS: Final = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/stockpools"
_MANIFESTS: Final = Path(__file__).resolve().parents[2] / "manifests"


@frozen
class Installed:
    """A cluster with the manifests, and the kubeconfig of the manager's account."""

    access: ClusterAccess
    kubeconfig: Path

    @property
    def username(self) -> str:
        return f"system:serviceaccount:{SYSTEM_NAMESPACE}:{MANAGER}"


def installed(access: ClusterAccess, directory: Path) -> Installed:
    """Install the product as a user does."""
    access.kubectl("apply", "--kustomize", str(_MANIFESTS))
    access.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
    token = access.kubectl("create", "token", MANAGER, "--namespace", SYSTEM_NAMESPACE).strip()
    kubeconfig = directory / "manager.kubeconfig"
    kubeconfig.write_text(json.dumps(access.kubeconfig_for(token)))
    return Installed(access, kubeconfig)


@frozen
class Shop:
    """The product at work, a customer's hands, and an administrator's hands and eyes."""

    product: Product
    admin: AdminClient
    onlooker: Onlooker
    pools: Informer[StockPool]

    async def ready(self, name: str, namespace: str = INSTANCE_NAMESPACE, generation: int = 1) -> GPUUnit:
        return await self.onlooker.ready(ObjectKey(namespace, name), generation)

    async def stock(self, number: int) -> list[GPUUnit]:
        """All stock, once there are so many units of it and all of them are ready."""

        def is_full() -> bool:
            units = self.onlooker.units.store.list(STOCK_NAMESPACE).items
            return len(units) == number and all(unit.status.phase == "Ready" for unit in units)

        await eventually(is_full)
        return sorted(self.onlooker.units.store.list(STOCK_NAMESPACE).items, key=lambda unit: unit.metadata.name)

    async def pool_because(self, reason: str, name: str, namespace: str = STOCK_NAMESPACE) -> StockPool:
        """The pool, once its newest generation is in this state."""

        def holds(pool: StockPool | None) -> bool:
            ready = None if pool is None else find_condition(pool.status.conditions, "Ready")
            is_new = pool is not None and pool.status.observed_generation == pool.metadata.generation
            return is_new and ready is not None and ready.reason == reason

        told: Predicate[StockPool] = Predicate(f"is {reason}", holds)
        found = await wait_for(self.pools, ObjectKey(namespace, name), told, within=60)
        assert found is not None
        return found

    def make_pool(self, name: str, namespace: str, replicas: int, **spec: Any) -> None:
        """A pool, made with kubectl."""
        body = {
            "apiVersion": "runtime.lokiwager.io/v1alpha1",
            "kind": "StockPool",
            "metadata": {"name": name},
            "spec": {"specName": "g1.1", "cpu": "10m", "memory": "16Mi", "replicas": replicas, **spec},
        }
        self.admin.create(POOLS.format(namespace), body)


@asynccontextmanager
async def shop(world: Installed) -> AsyncIterator[Shop]:
    """The product that leads and takes requests, for the length of the block."""
    product = build_product(from_kubeconfig(world.kubeconfig))
    async with (
        managing(product.manager),
        looking_on(world.access, INSTANCE_NAMESPACE, STOCK_NAMESPACE) as onlooker,
        looking_at(world.access, StockPool, INSTANCE_NAMESPACE, STOCK_NAMESPACE) as pools,
    ):
        await eventually(lambda: product.service.operations.is_accepting)
        yield Shop(product, world.access.admin(), onlooker, pools)
