"""A cluster that refuses what is done to units, by a policy of its API server, with 422, for the length of a block."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.kube.errors import InvalidError
from gpuruntime.meta import ObjectMeta
from tests.service.service_scenes import ServiceWorld

__all__ = ["refusing_deletions", "refusing_units"]

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def refusing_units(world: ServiceWorld, namespace: str, words: str) -> AbstractAsyncContextManager[None]:
    """In the block no unit of a namespace can be made or changed, its status aside; who tries is told these words."""

    async def rehearse() -> None:
        unit = GPUUnit(ObjectMeta(name="rehearsed", namespace=namespace), GPUUnitSpec("g1.1"))
        await world.admin.create(unit, dry_run=True)

    return _refusing(world, namespace, words, ["CREATE", "UPDATE"], rehearse)


def refusing_deletions(world: ServiceWorld, namespace: str, words: str) -> AbstractAsyncContextManager[None]:
    """In the block no unit of a namespace can be deleted; who tries is told these words. There is one in it, before and
    after.
    """

    async def rehearse() -> None:
        name = next(iter(await world.units(namespace)))
        await world.admin.delete(GPUUnit, name, namespace, dry_run=True)

    return _refusing(world, namespace, words, ["DELETE"], rehearse)


@asynccontextmanager
async def _refusing(
    world: ServiceWorld,
    namespace: str,
    words: str,
    operations: Sequence[str],
    rehearse: Callable[[], Awaitable[None]],
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
        # Nothing but what it says tells that the API server has heard of a policy, or of its end.
        while not await _is_refused(rehearse):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.05)
        yield
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            admin.delete(f"{_ADMISSION}/{kind}/{name}")
    while await _is_refused(rehearse):  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.05)


async def _is_refused(rehearse: Callable[[], Awaitable[None]]) -> bool:
    try:
        await rehearse()
    except InvalidError:
        return True
    return False
