"""A whole sidecar: framework, runs, connection and probes, from start to drain."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from gpuruntime.api.serverless import RAW
from gpuruntime.dispatch.sidecar.activator_link import ActivatorLink
from gpuruntime.dispatch.sidecar.contracts import Contract
from gpuruntime.dispatch.sidecar.durations import Durations
from gpuruntime.dispatch.sidecar.envelope_contract import EnvelopeContract
from gpuruntime.dispatch.sidecar.execution import Execution
from gpuruntime.dispatch.sidecar.framework_client import FrameworkClient
from gpuruntime.dispatch.sidecar.framework_health import FrameworkHealth
from gpuruntime.dispatch.sidecar.held_runs import HeldRuns
from gpuruntime.dispatch.sidecar.outbox import Outbox
from gpuruntime.dispatch.sidecar.probe_server import Probes, serve_probes
from gpuruntime.dispatch.sidecar.raw_contract import RawContract
from gpuruntime.dispatch.sidecar.settings import SidecarSettings
from gpuruntime.dispatch.sidecar.worker import Worker

__all__ = ["serve_sidecar"]

_LOG = logging.getLogger(__name__)


async def serve_sidecar(
    settings: SidecarSettings,
    stopping: asyncio.Event,
    *,
    durations: Durations = Durations(),  # noqa: B008 - frozen
    started: Callable[[int], None] = lambda _port: None,
) -> None:
    """Serve until `stopping` is set and what runs has ended and is committed, or the time of a drain is over.

    `started` is called with the port of the probes when these are served.

    Raises:
        OSError: the port of the probes is taken.
    """
    outbox = Outbox()
    runs = HeldRuns(outbox)
    async with FrameworkClient(settings.socket, settings.invoke_path, settings.health_path) as framework:
        health = FrameworkHealth(framework, durations)
        execution = Execution(
            contract=_contract(settings),
            framework=framework,
            health=health,
            runs=runs,
            slots=asyncio.Semaphore(settings.slots),
            durations=durations,
            can_cancel=settings.contract != RAW,
        )
        worker = Worker(
            slots=settings.slots,
            revision=settings.revision,
            outbox=outbox,
            runs=runs,
            health=health,
            execution=execution,
        )
        link = ActivatorLink(settings.activator_url, settings.token_file, settings.tls(), worker, outbox, durations)

        def health_changed() -> None:
            worker.health_changed()
            link.offer_changed()

        health.changed = health_changed
        probes = Probes(health, lambda: worker.drain(settings.drain_seconds))
        async with serve_probes(probes, settings.health_port) as port, asyncio.TaskGroup() as tasks:
            started(port)
            own = [tasks.create_task(health.watch(), name="health"), tasks.create_task(link.keep(), name="link")]
            try:
                await stopping.wait()
                if not await worker.drain(settings.drain_seconds):
                    _LOG.warning("the sidecar ends before its runs", extra={"running": runs.running})
                with suppress(TimeoutError):
                    async with asyncio.timeout(durations.close):
                        await outbox.flush()
            finally:
                await worker.close()
                for task in own:
                    task.cancel()


def _contract(settings: SidecarSettings) -> Contract:
    if settings.contract == RAW:
        return RawContract()
    return EnvelopeContract(settings.request_id, settings.worker, settings.namespace)
