"""Waiting for the deletion of an object, by a cache that the test fills."""

import asyncio
from typing import Any

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import Cache, Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError, Status
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.service.objects.wait import ObjectWaiter
from gpuruntime.service.reads.reader import Reads
from gpuruntime.testing.virtual_time import run_virtual

KEY = ObjectKey("n", "a")


class Empty:
    """The transport to an API server without objects."""

    async def send(self, request: Request) -> Any:
        raise NotFoundError(Status(404, "NotFound", str(request)))

    def stream(self, request: Request, *, idle_timeout: float) -> Any:
        raise NotImplementedError(request, idle_timeout)


class World:
    """A cache of units, and a waiter on it."""

    def __init__(self) -> None:
        self.informer: Informer[GPUUnit] = Cache(Empty()).informer(GPUUnit)
        self.waiter = ObjectWaiter(Reads(self.informer, Client(Empty(), field_manager="test"), GPUUnit))

    async def shows(self, version: int, *images: str) -> None:
        """Fill the cache with one unit with this image, or with none."""
        writer = self.informer._writer
        listed = writer.new_indexer()
        for image in images:
            metadata = {"name": KEY.name, "namespace": KEY.namespace, "uid": "u", "resourceVersion": str(version)}
            listed.put(listed.entry({"metadata": metadata, "spec": {"specName": "g1.1", "image": image}}, 100))
        await writer.replace(self.informer.scope.parts[0], listed, str(version))


def test_a_unit_that_is_not_deleted_is_returned_after_the_timeout() -> None:
    async def story() -> None:
        world = World()
        await world.shows(1, "one")
        waiting = asyncio.create_task(world.waiter.until_deleted(KEY, "", 10))
        await asyncio.sleep(5)
        await world.shows(2, "two")
        result = await waiting

        assert result.read is not None
        assert (result.read.object.spec.image, result.uid) == ("two", "u")

    run_virtual(story())


def test_a_deleted_unit_is_reported_with_its_uid_if_known() -> None:
    async def story() -> None:
        world = World()
        await world.shows(1, "one")
        waiting = asyncio.create_task(world.waiter.until_deleted(KEY, "", 10))
        await asyncio.sleep(5)
        await world.shows(2)
        deleted = await waiting
        absent = await world.waiter.until_deleted(KEY, "", 10)

        assert (deleted.read, deleted.uid) == (None, "u")
        assert (absent.read, absent.uid) == (None, None)
        assert asyncio.get_running_loop().time() == 5

    run_virtual(story())
