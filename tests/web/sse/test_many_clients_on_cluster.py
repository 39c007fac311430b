"""Many clients of event streams, on a real control plane: they share encoded units, and do not block each other."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from attrs import field, frozen

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.kube import Client
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import FrozenDict, ObjectMeta
from gpuruntime.testing import ClusterAccess
from gpuruntime.web.sse import stream
from tests.control.scenes import eventually, open_transport
from tests.web.resource_scenes import Event, Events
from tests.web.stream_scenes import Replica, replica

LABELS = FrozenDict({f"label-{number}": "x" * 60 for number in range(800)})
"""Enough labels to make a long view."""


@frozen
class CountingNamespaces(Namespaces):
    """Records each lookup of a role: one for each view of a unit."""

    asked: list[str] = field(factory=list)

    def is_stock(self, namespace: str) -> bool:
        self.asked.append(namespace)
        return super().is_stock(namespace)


async def make(client: Client, namespace: str, name: str, image: str = "one") -> str:
    metadata = ObjectMeta(name=name, namespace=namespace, labels=LABELS)
    made = await client.create(GPUUnit(metadata, GPUUnitSpec("g1.1", image=image)))
    return made.metadata.resource_version


async def change(client: Client, namespace: str, name: str, image: str) -> str:
    changed = await client.patch(GPUUnit, name, namespace, MergePatch({"spec": {"image": image}}))
    return changed.metadata.resource_version


async def events_up_to(events: Events, image: str) -> list[Event]:
    """The events of units, up to the first with this image."""
    found = [await events.next()]
    while found[-1].data.get("image") != image:
        found.append(await events.next())
    return [event for event in found if "image" in event.data]


@asynccontextmanager
async def stalled(process: Replica) -> AsyncIterator[None]:
    """A client that sends a request and does not read."""
    loop, server = asyncio.get_running_loop(), process.client.server
    with socket.socket() as quiet:
        quiet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        quiet.setblocking(False)
        await loop.sock_connect(quiet, (server.host, server.port))
        await loop.sock_sendall(quiet, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield


async def test_a_version_of_a_unit_is_encoded_once_for_all_clients(product: ClusterAccess, kube_namespace: str) -> None:
    namespaces = CountingNamespaces()
    async with (
        open_transport(product) as transport,
        replica(from_kubeconfig(product.kubeconfig), kube_namespace, namespaces=namespaces) as process,
        AsyncExitStack() as stack,
    ):
        client = Client(transport, field_manager="tests")
        await process.sees([await make(client, kube_namespace, name) for name in ("a", "b", "c")][-1])

        clients = [await stack.enter_async_context(process.follow()) for _ in range(8)]
        states = await asyncio.gather(*(events.until("synced") for events in clients))
        await change(client, kube_namespace, "b", "two")
        steps = await asyncio.gather(*(events.next() for events in clients))

    assert len(namespaces.asked) == 3 + 1
    assert [len(state) for state in states] == [5] * 8
    assert [(step.name, step.data["image"]) for step in steps] == [("modified", "two")] * 8


async def test_a_client_that_does_not_read_is_dropped_and_others_get_every_event(
    product: ClusterAccess, kube_namespace: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream, "_STALLED_SECONDS", 3.0)
    caplog.set_level(logging.INFO, "gpuruntime.web")
    images = [f"image-{number}" for number in range(40)]
    async with (
        open_transport(product) as transport,
        replica(from_kubeconfig(product.kubeconfig), kube_namespace) as process,
        process.follow() as events,
        stalled(process),
    ):
        client = Client(transport, field_manager="tests")
        listening = asyncio.create_task(events_up_to(events, images[-1]))
        await make(client, kube_namespace, "a")
        for image in images:
            await change(client, kube_namespace, "a", image)
        received = [event.data["image"] for event in await listening]
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                await eventually(lambda: process.metrics.streams == 1)

    drops = [record for record in caplog.records if record.getMessage() == "event stream dropped"]
    assert received == ["one", *images]
    assert [record.__dict__["reason"] for record in drops] == ["stalled"]
    assert 'gpuruntime_http_streams_dropped_total{reason="stalled"} 1.0' in process.scrape()
