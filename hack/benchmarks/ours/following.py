"""A controller that watches ConfigMaps, for the scenarios that need one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from gpuruntime.control import Manager, ManagerOptions, Reconciler, Store, Watch, enqueue_object
from gpuruntime.kube.auth.infer import infer
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta import ObjectKey

__all__ = ["following"]

R = TypeVar("R", bound=Reconciler[ObjectKey])


@asynccontextmanager
async def following(make: Callable[[Store[ConfigMap]], R]) -> AsyncIterator[R]:
    """Run the reconciler that `make` creates in its own manager until the block ends."""
    manager = Manager(infer(), ManagerOptions("gpuruntime-bench"))
    maps = manager.cache.informer(ConfigMap)
    reconciler = make(maps.store)
    manager.add_controller("follower", reconciler, [Watch(maps, enqueue_object())])
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        yield reconciler
        manager.stop()
