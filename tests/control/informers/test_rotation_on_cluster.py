"""Credentials that are replaced while a watch runs."""

import asyncio
import json
from pathlib import Path

from gpuruntime.control.informers.cache import Cache
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.testing import AdminClient, ClusterAccess
from gpuruntime.testing.plugin import AccountFactory
from tests.control.scenes import running, watch

READ = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}


def bound_token(admin: AdminClient, namespace: str, account: str, secret: str) -> str:
    """A token that is worth nothing as soon as the Secret is gone."""
    home = f"/api/v1/namespaces/{namespace}"
    uid = admin.create(f"{home}/secrets", {"metadata": {"name": secret}})["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": uid}
    request = {"spec": {"expirationSeconds": 3600, "boundObjectRef": reference}}
    return str(admin.create(f"{home}/serviceaccounts/{account}/token", request)["status"]["token"])


async def test_a_token_that_became_worthless_is_read_anew_from_its_file(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_account: AccountFactory, tmp_path: Path
) -> None:
    admin = kube_cluster.admin()
    account = kube_account(rules=[READ])
    token_file = tmp_path / "token"
    token_file.write_text(bound_token(admin, kube_namespace, account.name, "first"))
    document = kube_cluster.kubeconfig_for("", kube_namespace)
    document["users"][0]["user"] = {"tokenFile": str(token_file)}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(document))
    maps = f"/api/v1/namespaces/{kube_namespace}/configmaps"

    async with Transport(from_kubeconfig(kubeconfig), user_agent="tests") as transport:
        cache = Cache(transport)
        informer = cache.informer(ConfigMap, namespaces=[kube_namespace])
        witness = await watch(informer)
        async with running(cache):
            await informer.synced()

            token_file.write_text(bound_token(admin, kube_namespace, account.name, "second"))
            admin.delete(f"/api/v1/namespaces/{kube_namespace}/secrets/first")
            answers = [await transport.send(Request("GET", maps)) for _ in range(3)]
            await asyncio.to_thread(admin.create, maps, {"metadata": {"name": "after"}})
            await witness.until(lambda changes: ("added", "after") in changes)

    assert [answer.status for answer in answers] == [200, 200, 200]
