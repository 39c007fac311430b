"""The operator of functions and units at work, with the permissions that it declares and no others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from attrs import evolve, field, frozen

from gpuruntime.api.gpufunction import FunctionScaling, GPUFunction, GPUFunctionSpec
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.serverless import UnitServerless
from gpuruntime.control import Controller, Informer, Manager, ManagerOptions, wait_for
from gpuruntime.control.informers.waiting import WaitCondition
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.desired.rendering import Rendering, SidecarRendering
from gpuruntime.kube import Client, ForbiddenError, MergePatch, connect
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.networking import NetworkPolicy
from gpuruntime.meta import ObjectKey, ObjectMeta, find_condition
from gpuruntime.reconcilers.gpufunction.reconciler import GPUFunctionOptions, install_gpufunction
from gpuruntime.reconcilers.gpuunit.reconciler import GPUUnitOptions, install_gpuunit
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.cluster.accounts import Account
from gpuruntime.testing.permissions import granted_account
from tests.control.scenes import managing
from tests.service.service_scenes import looking_at, reconcile_everything

__all__ = ["SIDECAR", "FunctionWorld", "Operator", "build_operator", "function_world", "serverless_spec"]

SIDECAR: Final = SidecarRendering("gpuruntime:test", "wss://gpuruntime-activator.gpuruntime-system.svc:8443")
_PATIENCE: Final = 90.0


@frozen
class Operator:
    """The reconcilers of functions and units in one process."""

    manager: Manager
    functions: Controller[ObjectKey]
    units: Controller[ObjectKey]


def build_operator(
    credentials: Credentials, namespaces: Namespaces, sidecar: SidecarRendering | None, **options: Any
) -> Operator:
    """An operator; `options` are those of functions."""
    manager = Manager(credentials, ManagerOptions("gpu-runtime-operator", grace=5.0))
    rendering = Rendering(namespaces=namespaces, min_ready_seconds=0, sidecar=sidecar)
    units = install_gpuunit(manager, GPUUnitOptions(rendering))
    return Operator(manager, install_gpufunction(manager, GPUFunctionOptions(namespaces, sidecar, **options)), units)


def serverless_spec(request_id: str, spec: Mapping[str, Any] | None = None, **serverless: Any) -> GPUUnitSpec:
    """A small unit with this requestID."""
    plain = GPUUnitSpec(
        "g1.1", cpu="10m", memory="16Mi", image="nginx", serverless=UnitServerless(request_id, **serverless)
    )
    return evolve(plain, **(spec or {}))


@frozen
class FunctionWorld:
    """The namespaces of a test, and the operator's account, with exactly the permissions that it declares."""

    access: ClusterAccess
    account: Account
    audit: AuditLog
    namespaces: Namespaces
    admin: Client = field(repr=False)
    functions: Informer[GPUFunction] = field(repr=False)

    @property
    def active(self) -> str:
        return self.namespaces.default_instance

    @asynccontextmanager
    async def operator(self, sidecar: SidecarRendering | None = SIDECAR, **options: Any) -> AsyncIterator[Operator]:
        """An operator, running for the length of the block."""
        built = build_operator(from_kubeconfig(self.account.kubeconfig), self.namespaces, sidecar, **options)
        async with managing(built.manager):
            yield built

    async def writes_of_a_second_pass(self, sidecar: SidecarRendering | None = SIDECAR) -> list[tuple[str, str]]:
        """The writes of an operator that starts now and reconciles everything twice."""
        with self.audit.recording() as seen:
            async with self.operator(sidecar) as operator:
                for _ in range(2):
                    for controller in (operator.functions, operator.units):
                        await reconcile_everything(controller)
        writes = seen.writes(user=self.account.username)
        return [(write.verb, f"{write.resource}/{write.subresource}".rstrip("/")) for write in writes]

    async def make(self, name: str, workers: int = 0, **spec: Any) -> GPUFunction:
        """A function of small workers, created by a user."""
        wanted = GPUFunctionSpec(
            **{"spec_name": "g1.1", "cpu": "10m", "memory": "16Mi", "image": "nginx", **spec},
            scaling=FunctionScaling(min_workers=workers, max_workers=max(workers, 1)),
        )
        return await self.admin.create(GPUFunction(ObjectMeta(name=name, namespace=self.active), wanted))

    async def change(self, name: str, spec: Mapping[str, Any]) -> GPUFunction:
        """Change the spec of a function as a user does."""
        return await self.admin.patch(GPUFunction, name, self.active, MergePatch({"spec": spec}))

    async def scale(self, name: str, workers: int) -> GPUFunction:
        return await self.change(name, {"scaling": {"minWorkers": workers, "maxWorkers": max(workers, 1)}})

    async def make_unit(self, name: str, spec: GPUUnitSpec) -> GPUUnit:
        """A unit, created by a user."""
        return await self.admin.create(GPUUnit(ObjectMeta(name=name, namespace=self.active), spec))

    async def because(self, name: str, reason: str, words: str = "", since: GPUFunction | None = None) -> GPUFunction:
        """The function, once its newest generation has this reason, and a message that contains these words.

        `since` is the function as the last change returned it.
        """
        least = 1 if since is None else since.metadata.generation

        def holds(function: GPUFunction) -> bool:
            ready = find_condition(function.status.conditions, "Ready")
            generation = function.metadata.generation
            is_new = function.status.observed_generation == generation >= least
            return is_new and ready is not None and ready.reason == reason and words in (ready.message or "")

        return await self.until(name, f"is {reason} ({words})", holds)

    async def until(self, name: str, text: str, holds: Callable[[GPUFunction], bool]) -> GPUFunction:
        """The function, once a predicate holds."""
        expected: WaitCondition[GPUFunction] = WaitCondition(text, lambda found: found is not None and holds(found))
        found = await wait_for(self.functions, ObjectKey(self.active, name), expected, within=_PATIENCE)
        assert found is not None
        return found

    @asynccontextmanager
    async def quota_of_none(self, sample: GPUFunction | GPUUnit) -> AsyncIterator[None]:
        """In the block a quota leaves no room for another object like the sample."""
        admin, quotas = self.access.admin(), f"/api/v1/namespaces/{self.active}/resourcequotas"
        hard = {f"count/{sample.KIND.plural}.{sample.KIND.group}": "0"}
        admin.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": hard}})
        try:
            # The API server enforces a quota when its cache shows it.
            while not await self._is_forbidden(sample):  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.05)
            yield
        finally:
            admin.delete(f"{quotas}/none")

    async def _is_forbidden(self, sample: GPUFunction | GPUUnit) -> bool:
        named = evolve(sample, metadata=ObjectMeta(name="sample", namespace=self.active))
        try:
            await self.admin.create(named, dry_run=True)
        except ForbiddenError:
            return True
        return False

    async def units(self) -> Mapping[str, GPUUnit]:
        """The units of the namespace by name, live."""
        return {unit.metadata.name: unit for unit in (await self.admin.list(GPUUnit, self.active)).items}

    async def policies(self) -> Mapping[str, NetworkPolicy]:
        """The network policies of the namespace by name, live."""
        return {found.metadata.name: found for found in (await self.admin.list(NetworkPolicy, self.active)).items}


@asynccontextmanager
async def function_world(
    access: ClusterAccess, audit: AuditLog, active: str, stock: str, directory: Path
) -> AsyncIterator[FunctionWorld]:
    """A world of two namespaces."""
    namespaces = Namespaces((active,), (stock,), active)
    planned = build_operator(OFFLINE_CREDENTIALS, namespaces, SIDECAR)
    with granted_account(access, planned.manager.permissions, namespace=active, directory=directory) as account:
        async with (
            connect(from_kubeconfig(access.kubeconfig), field_manager="tests") as admin,
            looking_at(access, GPUFunction, active) as functions,
        ):
            yield FunctionWorld(access, account, audit, namespaces, admin, functions)
