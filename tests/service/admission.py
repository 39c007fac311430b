"""A cluster that says no to deletions: by a policy of the API server's own, for the length of a block."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.kube.errors import InvalidError
from tests.service.service_scenes import ServiceWorld

__all__ = ["denying_deletions"]

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


@asynccontextmanager
async def denying_deletions(world: ServiceWorld, namespace: str, words: str) -> AsyncIterator[None]:
    """No unit of a namespace can be deleted in the block, and whoever tries is told so in these words.

    There is one in the namespace, before and after.
    """
    admin, named = world.access.admin(), {"metadata": {"name": f"frozen-{namespace}"}}
    rule = {
        "apiGroups": [GPUUnit.KIND.group],
        "apiVersions": ["*"],
        "operations": ["DELETE"],
        "resources": [GPUUnit.KIND.plural],
    }
    policy = {
        "matchConstraints": {
            "resourceRules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        },
        "validations": [{"expression": "false", "message": words}],
    }
    binding = {"policyName": f"frozen-{namespace}", "validationActions": ["Deny"]}
    admin.create(f"{_ADMISSION}/validatingadmissionpolicies", named | {"spec": policy})
    try:
        admin.create(f"{_ADMISSION}/validatingadmissionpolicybindings", named | {"spec": binding})
        while not await _is_denied(world, namespace):  # noqa: ASYNC110 - a policy that is in force is no event
            await asyncio.sleep(0.05)
        yield
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            admin.delete(f"{_ADMISSION}/{kind}/frozen-{namespace}")
    while await _is_denied(world, namespace):  # noqa: ASYNC110 - nor is one that is gone
        await asyncio.sleep(0.05)


async def _is_denied(world: ServiceWorld, namespace: str) -> bool:
    name = next(iter(await world.units(namespace)))
    try:
        await world.admin.delete(GPUUnit, name, namespace, dry_run=True)
    except InvalidError:
        return True
    return False
