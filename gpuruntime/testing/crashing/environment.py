"""The stage of one run: namespaces, an account for the operator, a proxy, a witness; all gone afterwards."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.client import connect
from gpuruntime.testing.access import ClusterAccess, kubeconfig_document
from gpuruntime.testing.accounts import Account, create_account, delete_account
from gpuruntime.testing.admin import AdminClient
from gpuruntime.testing.crashing.operators import Launch
from gpuruntime.testing.crashing.scenario import Scenario, Stage
from gpuruntime.testing.faults.proxy import BearerToken, FaultProxy

__all__ = ["EVERYTHING", "Rules", "Setting", "staging"]

Rules = Sequence[Mapping[str, Any]]
EVERYTHING: Final[Rules] = ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},)
_PATIENCE_SECONDS = 30.0


@frozen
class Setting:
    """What one run has: the stage for the scenario, the proxy for faults, the launch for the operator."""

    stage: Stage
    proxy: FaultProxy
    launch: Launch


@asynccontextmanager
async def staging(scenario: Scenario, access: ClusterAccess, directory: Path, rules: Rules) -> AsyncIterator[Setting]:
    """Set one up. The operator may do what the RBAC rules say, in all namespaces; `directory` must be a new one."""
    async with AsyncExitStack() as stack:
        namespaces = {role: f"{role}-{uuid.uuid4().hex[:10]}" for role in scenario.namespaces}
        stack.push_async_callback(asyncio.to_thread, _remove_namespaces, access, tuple(namespaces.values()))
        account = await asyncio.to_thread(_furnish, access, tuple(namespaces.values()), directory, rules)
        stack.push_async_callback(asyncio.to_thread, delete_account, access, account)
        # Clients keep their token to themselves where there is no TLS, so the proxy has it.
        identity = BearerToken(account.token)
        proxy = await stack.enter_async_context(FaultProxy(access.server, access.authority, identity=identity))
        kubeconfig = kubeconfig_document(proxy.url, b"", {}, namespaces[scenario.namespaces[0]])
        account.kubeconfig.write_text(json.dumps(kubeconfig))
        witness = await stack.enter_async_context(recording_changes(access, scenario.kinds, namespaces, proxy.changes))
        administrator = from_kubeconfig(access.kubeconfig)
        client = await stack.enter_async_context(connect(administrator, field_manager="gpuruntime-testing-user"))
        yield Setting(Stage(access, client, witness), proxy, Launch(account.kubeconfig, namespaces))


def _furnish(access: ClusterAccess, namespaces: tuple[str, ...], directory: Path, rules: Rules) -> Account:
    directory.mkdir(parents=True)
    admin = access.admin()
    for name in namespaces:
        create_namespace(admin, name)
    account = create_account(access, namespaces[0], directory, cluster_rules=rules)
    for rule in rules:
        _await_right(admin, account, rule)
    return account


def _await_right(admin: AdminClient, account: Account, rule: Mapping[str, Any]) -> None:
    """The API server learns of new roles by a watch; an operator that is quicker would be refused."""
    if "resources" not in rule:
        return
    resource, _, subresource = rule["resources"][0].partition("/")
    wanted = {"verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": resource, "subresource": subresource}
    if rule.get("resourceNames"):
        wanted["name"] = rule["resourceNames"][0]
    review = {"spec": {"user": account.username, "resourceAttributes": wanted}}
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{account.username} may not {wanted} within {_PATIENCE_SECONDS:.0f} s")
        time.sleep(0.02)


def _remove_namespaces(access: ClusterAccess, namespaces: tuple[str, ...]) -> None:
    admin = access.admin()
    for name in namespaces:
        admin.delete(f"/api/v1/namespaces/{name}")
