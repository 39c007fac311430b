"""Idle storages on a real control plane: processes that start again leave them, their volumes and their units alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec, StorageAccessor, StoragePrepare
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import OFFLINE_CREDENTIALS, Controller, Manager, ManagerOptions
from gpuruntime.desired.rendering import Rendering
from gpuruntime.kube import Credentials, connect
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.batch import Job
from gpuruntime.meta import ObjectKey, ObjectMeta, is_true
from gpuruntime.reconcilers.gpustorage.reconciler import install_gpustorage
from gpuruntime.reconcilers.gpuunit.reconciler import GPUUnitOptions, install_gpuunit
from gpuruntime.reconcilers.storage_locks import StorageLockOptions, install_storage_locks
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.permissions import granted_account
from gpuruntime.testing.volumes.fake_volumes import FakeVolumes
from tests.control.scenes import managing
from tests.mount_scenes import mounting
from tests.product_scenes import settled
from tests.reconcilers.gpustorage.crash_scenes import storage_options
from tests.service.service_scenes import looking_at, reconcile_everything

PREPARE = StoragePrepare(from_image="busybox", args=("fill",))


@frozen
class Operator:
    manager: Manager
    controllers: tuple[Controller[ObjectKey], ...]


def build(credentials: Credentials, namespace: str, stock: str) -> Operator:
    manager = Manager(credentials, ManagerOptions("gpu-runtime-operator", grace=5.0))
    namespaces = Namespaces((namespace,), (stock,), namespace)
    storages = install_gpustorage(manager, storage_options(namespaces))
    units = install_gpuunit(manager, GPUUnitOptions(Rendering(namespaces=namespaces, min_ready_seconds=0)))
    return Operator(manager, (storages, units, install_storage_locks(manager, StorageLockOptions(namespaces))))


def wanted(number: int, namespace: str, storage_class: str) -> tuple[GPUStorage, GPUUnit | None]:
    """A storage: every second one is prepared, every fourth has an accessor; two of three are mounted by a unit."""
    name = f"data-{number}"
    spec = GPUStorageSpec(
        size="1Gi",
        storage_class_name=storage_class,
        prepare=PREPARE if number % 2 else None,
        accessor=StorageAccessor(enabled=number % 4 == 0),
    )
    unit = GPUUnit(ObjectMeta(name=f"unit-{number}", namespace=namespace), mounting(name)) if number % 3 else None
    return GPUStorage(ObjectMeta(name=name, namespace=namespace), spec), unit


@pytest.fixture
async def operators(
    product: ClusterAccess, kube_namespace: str, stock_namespace: str, tmp_path: Path
) -> AsyncIterator["Operators"]:
    """The operator may be started, with exactly the permissions that it declares."""
    permissions = build(OFFLINE_CREDENTIALS, kube_namespace, stock_namespace).manager.permissions
    directory = tmp_path / "operator"
    directory.mkdir()
    with granted_account(product, permissions, namespace=kube_namespace, directory=directory) as account:
        yield Operators(from_kubeconfig(account.kubeconfig), account.username, kube_namespace, stock_namespace)


@frozen
class Operators:
    credentials: Credentials
    username: str
    namespace: str
    stock: str

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Operator]:
        operator = build(self.credentials, self.namespace, self.stock)
        async with managing(operator.manager):
            yield operator


def is_done(storage: GPUStorage) -> bool:
    accessor = storage.status.accessor
    is_accessible = accessor is not None and accessor.phase == "Ready"
    return storage.status.phase == "Ready" and (is_accessible or not storage.spec.accessor.enabled)


def is_started(unit: GPUUnit) -> bool:
    stages = unit.status.stages
    return is_true(unit.status.conditions, "Ready") and stages is not None and stages.ready is not None


@pytest.mark.parametrize(
    ("count", "idle_seconds"),
    [
        pytest.param(48, 0, id="second pass"),
        pytest.param(200, 300, id="five minutes", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
async def test_idle_storages_and_their_units_cost_no_write(
    product: ClusterAccess,
    kube_audit: AuditLog,
    kube_volumes: FakeVolumes,
    operators: Operators,
    count: int,
    idle_seconds: float,
) -> None:
    namespace, credentials = operators.namespace, from_kubeconfig(product.kubeconfig)
    pairs = [wanted(number, namespace, kube_volumes.classes.immediate) for number in range(count)]
    units = [unit for _, unit in pairs if unit is not None]
    async with (
        connect(credentials, field_manager="admin") as client,
        kube_volumes.running(within=240 + 4 * idle_seconds),
        looking_at(product, GPUStorage, namespace) as storages,
        looking_at(product, Job, namespace) as jobs,
        looking_at(product, GPUUnit, namespace) as running,
        operators.running() as first,
    ):
        await asyncio.gather(*(client.create(each) for pair in pairs for each in pair if each is not None))
        await running.until(lambda store: len(list(filter(is_started, store.list(namespace).items))) == len(units))
        await storages.until(lambda store: all(map(is_done, store.list(namespace).items)))
        await jobs.until(lambda store: not store.list(namespace).items)
        for controller in first.controllers:
            await settled(product, controller)
        with kube_audit.recording() as while_idle:
            await asyncio.sleep(idle_seconds)

    with kube_audit.recording() as of_second_pass:
        async with operators.running() as second:
            for controller in second.controllers * 2:
                await reconcile_everything(controller)

    found = [write for seen in (while_idle, of_second_pass) for write in seen.writes(user=operators.username)]
    assert [(write.verb, write.resource) for write in found] == []
    assert len(units) == sum(number % 3 > 0 for number in range(count))
