"""The agent follows the policies, pods and namespaces of a real API server."""

import asyncio
import json

from gpuruntime.control import Manager, ManagerOptions
from gpuruntime.kube import from_kubeconfig
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.managers import running
from gpuruntime.testing.network_policies.agent import enforce_network_policies

CLOSED = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "closed"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
}


def test_a_table_follows_a_policy_from_its_creation_to_its_deletion(
    kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    kube_cluster.kubectl("run", "web", "--image=web", "-n", kube_namespace)
    kube_cluster.kubectl("wait", "pod/web", "-n", kube_namespace, "--for=condition=Ready", "--timeout=60s")
    web = kube_cluster.admin().get(f"/api/v1/namespaces/{kube_namespace}/pods/web")
    tables = asyncio.Queue[str]()

    async def story() -> None:
        manager = Manager(from_kubeconfig(kube_cluster.kubeconfig), ManagerOptions("node-agent"))
        enforce_network_policies(manager, web["spec"]["nodeName"], tables.put)
        chain = f'chain ingress-{web["status"]["podIP"]} {{\n\t\tcomment "{kube_namespace}/web"\n\t\tdrop\n'
        async with running(manager):
            await until(chain, present=False)
            await kubectl("apply", "-f", "-", text=json.dumps(CLOSED))
            await until(chain, present=True)
            await kubectl("delete", "networkpolicy", "closed")
            await until(chain, present=False)

    async def until(text: str, *, present: bool) -> None:
        while (text in await tables.get()) is not present:
            pass

    async def kubectl(*arguments: str, text: str | None = None) -> None:
        await asyncio.to_thread(kube_cluster.kubectl, *arguments, "-n", kube_namespace, input_text=text)

    asyncio.run(story())
