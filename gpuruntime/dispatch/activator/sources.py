"""What an activator reads of the cluster: functions, and the pods of workers."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.control import Change, Informer
from gpuruntime.dispatch.activator.workers.identity import WorkerPod
from gpuruntime.meta import ObjectKey

__all__ = ["CachedFunctions", "CachedPods", "FunctionSource", "PodSource"]


class FunctionSource(Protocol):
    """The functions."""

    def get(self, key: ObjectKey) -> GPUFunction | None:
        """A function; None if there is none, or if it is not known yet."""

    def keys(self) -> Iterable[ObjectKey]:
        """The keys of all functions."""

    def watched(self, handler: Callable[[ObjectKey], None]) -> AbstractAsyncContextManager[None]:
        """Call `handler` with the key of every function that changes, for the length of the block."""


class PodSource(Protocol):
    """The pods of workers."""

    def get(self, key: ObjectKey) -> WorkerPod | None:
        """A pod; None if there is none, or if it is not known yet."""

    def watched(self, on_end: Callable[[str], None]) -> AbstractAsyncContextManager[None]:
        """Call `on_end` with the UID of every pod that ends, or is gone, for the length of the block."""


@frozen
class CachedFunctions:
    """The functions of an informer."""

    informer: Informer[GPUFunction]

    def get(self, key: ObjectKey) -> GPUFunction | None:
        return self.informer.store.get(key)

    def keys(self) -> Iterable[ObjectKey]:
        return tuple(self.informer.store)

    @asynccontextmanager
    async def watched(self, handler: Callable[[ObjectKey], None]) -> AsyncIterator[None]:
        def handle(change: Change[GPUFunction]) -> None:
            handler(change.key)

        await self.informer.subscribe(handle, name="activator")
        try:
            yield
        finally:
            self.informer.unsubscribe(handle)


@frozen
class CachedPods:
    """The pods of an informer."""

    informer: Informer[WorkerPod]

    def get(self, key: ObjectKey) -> WorkerPod | None:
        return self.informer.store.get(key)

    @asynccontextmanager
    async def watched(self, on_end: Callable[[str], None]) -> AsyncIterator[None]:
        def handle(change: Change[WorkerPod]) -> None:
            pod = change.after
            if pod is None or pod.has_ended:
                on_end(change.uid)

        await self.informer.subscribe(handle, name="activator")
        try:
            yield
        finally:
            self.informer.unsubscribe(handle)
