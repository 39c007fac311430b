"""The product as it is shipped: its manifests on a separate cluster, and its two processes with their accounts."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import Informer, wait_for
from gpuruntime.control.informers.waiting import WaitCondition
from gpuruntime.control.manager import Manager
from gpuruntime.control.serving.http_site import HttpAddress
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.meta import ObjectKey, find_condition
from gpuruntime.processes.config.accessor_section import Accessor
from gpuruntime.processes.config.sidecar_keys import SidecarKeys
from gpuruntime.processes.controller_manager import ControllerManagerConfig, build_controller_manager
from gpuruntime.processes.runtime_api import RuntimeApiConfig, build_runtime_api
from gpuruntime.processes.wiring.api_server import ApiServer
from gpuruntime.testing import AdminClient, ClusterAccess
from tests.control.scenes import managing
from tests.product_scenes import Observer, eventually, looking_on
from tests.service.service_scenes import looking_at

__all__ = ["POOLS", "Account", "Installed", "Shop", "installed", "shop"]

POOLS: Final = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/stockpools"
_MANIFESTS: Final = Path(__file__).resolve().parents[2] / "manifests" / "overlays" / "local"


@frozen
class Account:
    """The account of a process, as the manifests have it."""

    name: str
    kubeconfig: Path

    @property
    def username(self) -> str:
        return f"system:serviceaccount:{SYSTEM_NAMESPACE}:{self.name}"


@frozen
class Installed:
    """A cluster with the manifests, and the accounts of the two processes."""

    access: ClusterAccess
    controller: Account
    api: Account


def installed(access: ClusterAccess, directory: Path) -> Installed:
    """Install the product as a user does."""
    access.kubectl("apply", "--kustomize", str(_MANIFESTS))
    access.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
    accounts = [_account(access, directory, f"gpuruntime-{name}") for name in ("controller-manager", "runtime-api")]
    return Installed(access, *accounts)


def _account(access: ClusterAccess, directory: Path, name: str) -> Account:
    token = access.kubectl("create", "token", name, "--namespace", SYSTEM_NAMESPACE).strip()
    kubeconfig = directory / f"{name}.kubeconfig"
    kubeconfig.write_text(json.dumps(access.kubeconfig_for(token)))
    return Account(name, kubeconfig)


@frozen
class Shop:
    """The running product, an admin client, and an observer."""

    controller: Manager
    server: ApiServer
    admin: AdminClient
    observer: Observer
    pools: Informer[StockPool]

    async def ready(self, name: str, namespace: str = INSTANCE_NAMESPACE, generation: int = 1) -> GPUUnit:
        return await self.observer.ready(ObjectKey(namespace, name), generation)

    async def stock(self, number: int) -> list[GPUUnit]:
        """All stock, once there is this number of units, all of them ready, also by the product's cache."""
        stores = (self.observer.units.store, self.server.service.unit_reads.informer.store)

        def is_full() -> bool:
            seen = [store.list(STOCK_NAMESPACE).items for store in stores]
            return all([unit.status.phase for unit in units] == ["Ready"] * number for units in seen)

        await eventually(is_full)
        return sorted(self.observer.units.store.list(STOCK_NAMESPACE).items, key=lambda unit: unit.metadata.name)

    async def pool_because(self, reason: str, name: str, namespace: str = STOCK_NAMESPACE) -> StockPool:
        """The pool, once its newest generation has this reason."""

        def holds(pool: StockPool | None) -> bool:
            ready = None if pool is None else find_condition(pool.status.conditions, "Ready")
            is_new = pool is not None and pool.status.observed_generation == pool.metadata.generation
            return is_new and ready is not None and ready.reason == reason

        expected: WaitCondition[StockPool] = WaitCondition(f"is {reason}", holds)
        found = await wait_for(self.pools, ObjectKey(namespace, name), expected, within=60)
        assert found is not None
        return found

    def make_pool(self, name: str, namespace: str, replicas: int, **spec: Any) -> None:
        """Create a pool as an administrator."""
        body = {
            "apiVersion": "runtime.lokiwager.io/v1alpha1",
            "kind": "StockPool",
            "metadata": {"name": name},
            "spec": {"specName": "g1.1", "cpu": "10m", "memory": "16Mi", "replicas": replicas, **spec},
        }
        self.admin.create(POOLS.format(namespace), body)


@asynccontextmanager
async def shop(world: Installed) -> AsyncIterator[Shop]:
    """The two processes, running in one loop for the length of the block."""
    anywhere = HttpAddress()
    accessor = Accessor("gpuruntime:test", ("ed25519:test",))
    workers = SidecarKeys("gpuruntime:test", "wss://gpuruntime-activator.gpuruntime-system.svc:8443")
    controller = build_controller_manager(
        from_kubeconfig(world.controller.kubeconfig),
        ControllerManagerConfig(metrics_bind_address=anywhere, accessor=accessor, serverless=workers),
    )
    server = build_runtime_api(from_kubeconfig(world.api.kubeconfig), RuntimeApiConfig(metrics_bind_address=anywhere))
    async with (
        managing(controller),
        managing(server.manager),
        looking_on(world.access, INSTANCE_NAMESPACE, STOCK_NAMESPACE) as observer,
        looking_at(world.access, StockPool, INSTANCE_NAMESPACE, STOCK_NAMESPACE) as pools,
    ):
        await eventually(lambda: server.service.operations.is_accepting)
        yield Shop(controller, server, world.access.admin(), observer, pools)
