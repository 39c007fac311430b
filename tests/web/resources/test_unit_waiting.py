"""Waiting for the end of a unit, by a cache that a test fills."""

import asyncio
from typing import Any

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import Cache, Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError, Status
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.service.reads.reader import Reads
from gpuruntime.testing.virtual_time import run_virtual
from gpuruntime.web.resources.unit_waiting import UnitWaiting

KEY = ObjectKey("n", "a")


class Empty:
    """A wire to a server that has nothing."""

    async def send(self, request: Request) -> Any:
        raise NotFoundError(Status(404, "NotFound", str(request)))

    def stream(self, request: Request, *, idle_timeout: float) -> Any:
        raise NotImplementedError(request, idle_timeout)


class World:
    """A cache of units, and who waits by it."""

    def __init__(self) -> None:
        self.informer: Informer[GPUUnit] = Cache(Empty()).informer(GPUUnit)
        self.waiting = UnitWaiting(Reads(self.informer, Client(Empty(), field_manager="test"), GPUUnit))

    async def shows(self, version: int, *images: str) -> None:
        """From now on there is one unit with this image, or none."""
        writer = self.informer._writer
        listed = writer.new_indexer()
        for image in images:
            metadata = {"name": KEY.name, "namespace": KEY.namespace, "uid": "u", "resourceVersion": str(version)}
            listed.put(listed.entry({"metadata": metadata, "spec": {"specName": "g1.1", "image": image}}, 100))
        await writer.replace(self.informer.scope.parts[0], listed, str(version))


def test_a_unit_that_stays_is_told_as_it_is_when_the_time_is_over() -> None:
    async def story() -> None:
        world = World()
        await world.shows(1, "one")
        waiting = asyncio.create_task(world.waiting.gone(KEY, "", 10))
        await asyncio.sleep(5)
        await world.shows(2, "two")
        left = await waiting

        assert left.seen is not None
        assert (left.seen.object.spec.image, left.uid) == ("two", "u")

    run_virtual(story())


def test_a_unit_that_goes_is_told_by_what_is_known_of_it() -> None:
    async def story() -> None:
        world = World()
        await world.shows(1, "one")
        waiting = asyncio.create_task(world.waiting.gone(KEY, "", 10))
        await asyncio.sleep(5)
        await world.shows(2)
        went = await waiting
        absent = await world.waiting.gone(KEY, "", 10)

        assert (went.seen, went.uid) == (None, "u")
        assert (absent.seen, absent.uid) == (None, None)
        assert asyncio.get_running_loop().time() == 5

    run_virtual(story())
