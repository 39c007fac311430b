"""A list that outlives its version, on a real server that forgets."""

import asyncio
from pathlib import Path

from gpuruntime.kube import Client, Response, Transport, dynamic, from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta import ObjectMeta
from gpuruntime.testing import LocalCluster


class ForgetfulServer(Transport):
    """The server loses its history between the first page and the second."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(from_kubeconfig(cluster.access.kubeconfig), user_agent="test")
        self.cluster = cluster
        self.lists: list[dict[str, str]] = []

    async def send(self, request: Request) -> Response:
        params = dict(request.params)
        if "limit" in params or self.lists:
            self.lists.append({name: "..." if name == "continue" else value for name, value in params.items()})
        if len(self.lists) == 2:
            await asyncio.to_thread(self.cluster.expire_resource_versions)
        return await super().send(request)


async def test_a_continue_token_that_the_server_forgot_leads_to_one_whole_list(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, nodes=()) as cluster:
        async with ForgetfulServer(cluster) as transport:
            client = Client(transport, field_manager="tester")
            names = {f"n{index}" for index in range(5)}
            for name in names:
                await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))

            listed = await client.list(dynamic(ConfigMap.KIND), "default", page_size=2)

    assert {item.metadata.name for item in listed.items} >= names
    assert len(listed.items) == len({item.key for item in listed.items})
    assert transport.lists == [{"limit": "2"}, {"limit": "2", "continue": "..."}, {}]
