"""The queues of functions: made before anything is accepted, kept as their functions say, and deleted with them.

=============================  ========================================================================================
a function is created          the finalizer is set, then the queue and its consumer are made
its limits change              the stream is updated
it is deleted                  see `deletion`; then the finalizer is removed
NATS is away                   tried again every few seconds, and at once when it is back; the log says why
NATS lost its disk             everything is made again after the reconnect
nothing has changed            no write, neither to the cluster nor to NATS
=============================  ========================================================================================
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.names import FUNCTION_FINALIZER
from gpuruntime.bus import Bus, BusError
from gpuruntime.control import (
    Channel,
    Context,
    Controller,
    ControllerOptions,
    Informer,
    Manager,
    Result,
    generation_changed,
    with_finalizer,
)
from gpuruntime.dispatch.activator.upkeep.deletion import QueueDeletion
from gpuruntime.meta import ObjectKey
from gpuruntime.service.invocations.streams import ACK_WAIT_SECONDS, ensure_queue, ensure_shared_streams

__all__ = ["QueueSettings", "install_queues"]

_LOG: Final = logging.getLogger(__name__)
_NAME: Final = "function-queues"
_CONCURRENCY: Final = 4
_RESYNC_SECONDS: Final = 300.0
# A queue of 10,000 is ended in half a minute; what is left is ended by the next run.
_LONGEST_RUN: Final = 300.0


@frozen(kw_only=True)
class QueueSettings:
    """How queues are made. `replicas` is the number of servers that have each stream."""

    replicas: int = 1
    ack_wait: float = ACK_WAIT_SECONDS
    retry_seconds: float = 5.0


def install_queues(
    manager: Manager,
    functions: Informer[GPUFunction],
    bus: Bus,
    deletion: QueueDeletion,
    settings: QueueSettings | None = None,
) -> Controller[ObjectKey]:
    """Have a manager keep the streams while it leads. Before it runs. It patches functions: declare that."""
    chosen = settings or QueueSettings()
    reconnects: Channel[ObjectKey] = Channel("NATS")
    queues = _Queues(bus, deletion, chosen)
    controller = (
        manager.controller(
            functions,
            name=_NAME,
            when=generation_changed(),
            options=ControllerOptions(concurrency=_CONCURRENCY, reconcile_timeout=_LONGEST_RUN),
        )
        .source(reconnects)
        .resync(_RESYNC_SECONDS)
        .reconcile_keys(queues.reconcile)
    )
    shared = _SharedStreams(bus, functions.store, reconnects, chosen)
    manager.add(shared.run, "shared streams", reads=(functions,))
    return controller


@frozen
class _Queues:
    bus: Bus
    deletion: QueueDeletion
    settings: QueueSettings

    async def reconcile(self, key: ObjectKey, ctx: Context) -> Result:
        function = ctx.store(GPUFunction).get(key)
        if function is None:
            return Result.done()
        try:
            await with_finalizer(
                ctx.client, function, FUNCTION_FINALIZER, apply=self._ensure, cleanup=self.deletion.delete
            )
        except BusError as error:
            _LOG.warning("queue of a function cannot be kept now, will retry", extra={"error": str(error)})
            return Result.after(self.settings.retry_seconds)
        return Result.done()

    async def _ensure(self, function: GPUFunction) -> None:
        await ensure_queue(self.bus, function, self.settings.replicas, self.settings.ack_wait)


@frozen
class _SharedStreams:
    """Makes the streams of all functions after each connect, and then has every queue looked at."""

    bus: Bus
    keys: Iterable[ObjectKey]
    reconnects: Channel[ObjectKey]
    settings: QueueSettings

    async def run(self) -> None:
        problem = ""
        while True:
            await self.bus.wait_connected()
            try:
                await ensure_shared_streams(self.bus, self.settings.replicas)
            except BusError as error:
                if problem != str(error):
                    problem = str(error)
                    _LOG.warning("streams cannot be made now, will retry", extra={"error": problem})
                await asyncio.sleep(self.settings.retry_seconds)
                continue
            problem = ""
            for key in self.keys:
                self.reconnects.send(key, why="connected to NATS")
            await self.bus.wait_disconnected()
