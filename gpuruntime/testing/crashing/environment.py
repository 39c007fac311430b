"""The environment of one run: namespaces, a ServiceAccount for the operator, a fault proxy and a change recorder."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.client import connect
from gpuruntime.testing.cluster.access import ClusterAccess, kubeconfig_document
from gpuruntime.testing.cluster.accounts import Account, create_account, delete_account
from gpuruntime.testing.cluster.namespaces import create_namespace
from gpuruntime.testing.crashing.change_recorder import recording_changes
from gpuruntime.testing.crashing.operators import Launch
from gpuruntime.testing.crashing.scenario import Scenario, Stage
from gpuruntime.testing.faults.proxy import BearerToken, FaultProxy

__all__ = ["ALLOW_ALL", "Rules", "RunEnvironment", "run_environment"]

Rules = Sequence[Mapping[str, Any]]
ALLOW_ALL: Final[Rules] = ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},)


@frozen
class RunEnvironment:
    """What one run works with: the stage for the scenario, the proxy for faults, the launch for the operator."""

    stage: Stage
    proxy: FaultProxy
    launch: Launch


@asynccontextmanager
async def run_environment(
    scenario: Scenario, access: ClusterAccess, directory: Path, rules: Rules
) -> AsyncIterator[RunEnvironment]:
    """Create the environment of a run, and delete it when the block ends.

    The operator has the permissions of the RBAC `rules` in all namespaces. `directory` must not exist yet.
    """
    async with AsyncExitStack() as stack:
        namespaces = {role: f"{role}-{uuid.uuid4().hex[:10]}" for role in scenario.namespaces}
        stack.push_async_callback(asyncio.to_thread, _delete_namespaces, access, tuple(namespaces.values()))
        account = await asyncio.to_thread(_create_objects, access, tuple(namespaces.values()), directory, rules)
        stack.push_async_callback(asyncio.to_thread, delete_account, access, account)
        # Clients send no token without TLS, so the proxy adds it.
        identity = BearerToken(account.token)
        proxy = await stack.enter_async_context(FaultProxy(access.server, access.authority, identity=identity))
        kubeconfig = kubeconfig_document(proxy.url, b"", {}, namespaces[scenario.namespaces[0]])
        account.kubeconfig.write_text(json.dumps(kubeconfig))
        recorder = await stack.enter_async_context(recording_changes(access, scenario.kinds, namespaces, proxy.changes))
        administrator = from_kubeconfig(access.kubeconfig)
        client = await stack.enter_async_context(connect(administrator, field_manager="gpuruntime-testing-user"))
        yield RunEnvironment(Stage(access, client, recorder), proxy, Launch(account.kubeconfig, namespaces))


def _create_objects(access: ClusterAccess, namespaces: tuple[str, ...], directory: Path, rules: Rules) -> Account:
    directory.mkdir(parents=True)
    admin = access.admin()
    for name in namespaces:
        create_namespace(admin, name)
    return create_account(access, namespaces[0], directory, cluster_rules=rules)


def _delete_namespaces(access: ClusterAccess, namespaces: tuple[str, ...]) -> None:
    admin = access.admin()
    for name in namespaces:
        admin.delete(f"/api/v1/namespaces/{name}")
