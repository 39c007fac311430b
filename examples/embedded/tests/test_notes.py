"""The application on a real API server: in the test's own loop, and as a process."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from gpuruntime.kube import from_kubeconfig
from gpuruntime.testing import ClusterAccess
from notes.application import application
from notes.cluster import NoteBoard

Story = Callable[[TestClient[Any, Any]], Awaitable[None]]
NOTE = {"name": "first", "text": "three short words"}


def in_one_loop(access: ClusterAccess, namespace: str, story: Story) -> None:
    async def run() -> None:
        app = application(lambda: NoteBoard(from_kubeconfig(access.kubeconfig), namespace))
        async with TestClient(TestServer(app)) as client:
            await story(client)

    asyncio.run(run())


async def get(client: TestClient[Any, Any], path: str) -> Any:
    async with client.get(path) as response:
        return await response.json()


async def counted(client: TestClient[Any, Any]) -> Any:
    while (notes := await get(client, "/notes")).get("first", {}).get("words") is None:
        pass
    return notes


def test_a_note_is_made_counted_and_read_from_the_cache(kube_cluster: ClusterAccess, kube_namespace: str) -> None:
    async def story(client: TestClient[Any, Any]) -> None:
        made = await client.post("/notes", json=NOTE)
        again = await client.post("/notes", json=NOTE)

        assert (made.status, again.status) == (201, 409)
        assert await counted(client) == {"first": {"text": "three short words", "words": "3"}}

    in_one_loop(kube_cluster, kube_namespace, story)


def test_the_application_outlives_the_manager(kube_cluster: ClusterAccess, kube_namespace: str) -> None:
    async def story(client: TestClient[Any, Any]) -> None:
        await client.post("/notes", json=NOTE)
        known = await counted(client)
        before = await get(client, "/")
        await client.delete("/board")
        refused = await client.post("/notes", json={"name": "second", "text": "too late"})

        assert (before, await get(client, "/")) == ({"board": "runs"}, {"board": "stopped"})
        assert await get(client, "/notes") == known
        assert refused.status == 503

    in_one_loop(kube_cluster, kube_namespace, story)


def test_the_process_serves_and_ends_in_order(kube_cluster: ClusterAccess, kube_namespace: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "KUBECONFIG": str(kube_cluster.kubeconfig), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "notes", kube_namespace, str(port)]

    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "Running on" in process.stdout.readline()
        body = json.dumps(NOTE).encode()
        urllib.request.urlopen(f"http://127.0.0.1:{port}/notes", body).close()
        wait = ("wait", "configmap/first", "--for=jsonpath={.data.words}=3", "--timeout=60s", "-n", kube_namespace)
        kube_cluster.kubectl(*wait)
        process.send_signal(signal.SIGTERM)

    assert process.returncode == 0
