"""Admission policies that refuse writes of units, with 422, and quotas that do, with 403, for the length of a block."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.kube.errors import ForbiddenError, InvalidError
from gpuruntime.meta import ObjectMeta
from tests.service.service_scenes import ServiceWorld

__all__ = ["refusing_by_quota", "refusing_deletions", "refusing_units"]

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def refusing_units(world: ServiceWorld, namespace: str, words: str) -> AbstractAsyncContextManager[None]:
    """In the block no unit of a namespace can be created or updated, except its status; `words` is the message."""

    async def dry_run() -> None:
        await _dry_creation(world, namespace)

    return _refusing(world, namespace, words, ["CREATE", "UPDATE"], dry_run)


@asynccontextmanager
async def refusing_by_quota(world: ServiceWorld, namespace: str) -> AsyncIterator[None]:
    """In the block a quota leaves no room for another unit of a namespace."""
    admin, quotas = world.access.admin(), f"/api/v1/namespaces/{namespace}/resourcequotas"
    hard = {f"count/{GPUUnit.KIND.plural}.{GPUUnit.KIND.group}": "0"}
    admin.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": hard}})
    try:
        # The API server enforces a quota when its cache shows it.
        while not await _is_refused(lambda: _dry_creation(world, namespace)):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.05)
        yield
    finally:
        admin.delete(f"{quotas}/none")


def refusing_deletions(world: ServiceWorld, namespace: str, words: str) -> AbstractAsyncContextManager[None]:
    """In the block no unit of a namespace can be deleted; `words` is the message. The namespace holds at least one."""

    async def dry_run() -> None:
        name = next(iter(await world.units(namespace)))
        await world.admin.delete(GPUUnit, name, namespace, dry_run=True)

    return _refusing(world, namespace, words, ["DELETE"], dry_run)


@asynccontextmanager
async def _refusing(
    world: ServiceWorld,
    namespace: str,
    words: str,
    operations: Sequence[str],
    dry_run: Callable[[], Awaitable[None]],
) -> AsyncIterator[None]:
    admin, name = world.access.admin(), f"refusing-{namespace}"
    rule = {
        "apiGroups": [GPUUnit.KIND.group],
        "apiVersions": ["*"],
        "operations": operations,
        "resources": [GPUUnit.KIND.plural],
    }
    policy = {
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        },
        "validations": [{"expression": "false", "message": words}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    metadata = {"name": name}
    admin.create(f"{_ADMISSION}/validatingadmissionpolicies", {"metadata": metadata, "spec": policy})
    try:
        admin.create(f"{_ADMISSION}/validatingadmissionpolicybindings", {"metadata": metadata, "spec": binding})
        # Only a refused dry run shows that the API server enforces the policy.
        while not await _is_refused(dry_run):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.05)
        yield
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            admin.delete(f"{_ADMISSION}/{kind}/{name}")
    while await _is_refused(dry_run):  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.05)


async def _dry_creation(world: ServiceWorld, namespace: str) -> None:
    unit = GPUUnit(ObjectMeta(name="dry-run", namespace=namespace), GPUUnitSpec("g1.1"))
    await world.admin.create(unit, dry_run=True)


async def _is_refused(dry_run: Callable[[], Awaitable[None]]) -> bool:
    try:
        await dry_run()
    except (ForbiddenError, InvalidError):
        return True
    return False
