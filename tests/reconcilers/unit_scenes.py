"""The GPUUnit operator at work, with the permissions that it declares and no others."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Controller, Manager, ManagerOptions, Store
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.names import child_name
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.gpuunit.reconciler import GPUUnitOptions, install_gpuunit
from gpuruntime.testing import AuditLog, ClusterAccess, NodeShape
from gpuruntime.testing.cluster.accounts import Account
from gpuruntime.testing.permissions import granted_account
from tests.control.scenes import managing
from tests.product_scenes import Observer, rested

__all__ = [
    "Operator",
    "UnitWorld",
    "child_of",
    "deployment_of",
    "operating",
    "play_node",
    "rolled_out",
    "unit_world",
]

_OPTIONS = ManagerOptions("gpu-runtime-operator", grace=5.0)


@frozen
class Operator:
    """An operator at work."""

    manager: Manager
    controller: Controller[ObjectKey]


@asynccontextmanager
async def operating(credentials: Credentials, options: GPUUnitOptions) -> AsyncIterator[Operator]:
    """An operator, at work for the length of the block."""
    manager = Manager(credentials, _OPTIONS)
    controller = install_gpuunit(manager, options)
    async with managing(manager):
        yield Operator(manager, controller)


@frozen
class UnitWorld:
    """Where a test's units live, and who the operator is: an account with exactly the permissions that it declares."""

    access: ClusterAccess
    account: Account
    options: GPUUnitOptions
    audit: AuditLog

    @asynccontextmanager
    async def operator(self, **rendering: Any) -> AsyncIterator[Operator]:
        """A running operator; `rendering` replaces options of its rendering."""
        options = evolve(self.options, rendering=evolve(self.options.rendering, **rendering))
        async with operating(from_kubeconfig(self.account.kubeconfig), options) as operator:
            yield operator

    async def writes_of_a_second_pass(self, units: int = 1, **rendering: Any) -> list[tuple[str, str]]:
        """What an operator writes that starts now, looks at all units, and then at all of them again."""
        with self.audit.recording() as seen:
            async with self.operator(**rendering) as operator:
                await rested(operator.controller, units)
                for informer in operator.controller.informers[:1]:
                    for key in informer.store:
                        operator.controller.queue.add(key)
                await rested(operator.controller, 2 * units)
        return [(write.verb, write.resource) for write in seen.writes(user=self.account.username)]


@asynccontextmanager
async def unit_world(
    access: ClusterAccess, audit: AuditLog, namespaces: Sequence[str], stock: Sequence[str], directory: Path
) -> AsyncIterator[UnitWorld]:
    """A world of these namespaces, some of them for stock."""
    rendering = Rendering(namespaces=Namespaces(tuple(namespaces), tuple(stock)), min_ready_seconds=0)
    options = GPUUnitOptions(rendering)
    planned = Manager(OFFLINE_CREDENTIALS, _OPTIONS)
    install_gpuunit(planned, options)
    with granted_account(access, planned.permissions, namespace=namespaces[0], directory=directory) as account:
        yield UnitWorld(access, account, options, audit)


def child_of(key: ObjectKey) -> ObjectKey:
    """The Deployment and the Service of a unit."""
    return ObjectKey(key.namespace, child_name(key.name))


def deployment_of(observer: Observer, unit: ObjectKey) -> Deployment:
    """The Deployment of a unit, as it was last seen."""
    found = observer.deployments.store.get(child_of(unit))
    assert found is not None
    return found


async def rolled_out(observer: Observer, unit: ObjectKey, generation: int) -> None:
    """Returns when this generation of the Deployment of a unit is rolled out."""

    def is_rolled_out(store: Store[Deployment]) -> bool:
        found = store.get(child_of(unit))
        status = None if found is None else found.status
        return status is not None and (
            (status.observed_generation, status.replicas, status.available_replicas) == (generation, 1, 1)
        )

    await observer.deployments.until(is_rolled_out)


@contextmanager
def play_node(access: ClusterAccess, shape: NodeShape) -> Iterator[None]:
    """A node without a simulated kubelet: it takes pods, and a test writes their status.

    Pods of other tests, which ask for no GPU of its product, would never run there: it repels those without GPUs.
    """
    admin, manifest = access.admin(), shape.for_gpu_pods().manifest()
    manifest["metadata"]["annotations"] = {}
    manifest["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}]
    admin.create("/api/v1/nodes", manifest)
    try:
        yield
    finally:
        admin.delete(f"/api/v1/nodes/{shape.name}")
