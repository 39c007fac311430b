"""The observability of a manager: health probes, metrics and debug pages, wired together."""

import asyncio
from typing import Any

from aiohttp import web
from attrs import frozen
from prometheus_client import CollectorRegistry

from gpuruntime.control.controllers.controller import Controller
from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.debug.pages import debug_application
from gpuruntime.control.events.recorder import Recorder
from gpuruntime.control.health.checks import HealthChecks, caches_synced, handlers_succeeding, loop_alive
from gpuruntime.control.health.probes import build_application
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.leadership.election import LeaseElection
from gpuruntime.control.metrics.client import ClientCollector
from gpuruntime.control.metrics.connections import ConnectionCollector, CountedSite
from gpuruntime.control.metrics.controllers import ControllerCollector
from gpuruntime.control.metrics.election import ElectionCollector
from gpuruntime.control.metrics.events import EventCollector
from gpuruntime.control.metrics.informers import InformerCollector
from gpuruntime.control.metrics.loop import LoopCollector
from gpuruntime.control.metrics.queues import QueueCollector
from gpuruntime.control.metrics.sources import SourceCollector
from gpuruntime.control.queueing.counters import QueueCounters
from gpuruntime.control.watchdog.loop_watchdog import LoopWatchdog
from gpuruntime.kube.transport.transport import Transport

__all__ = ["Observability"]


class Observability:
    """Probes, metrics registry and debug pages of one manager, served by `app`.

    Checks can be added to `live` and `ready` at any time, metrics to `registry`.
    """

    def __init__(self, cache: Cache, *transports: Transport) -> None:
        self.registry = CollectorRegistry()
        self.live = HealthChecks()
        self.ready = HealthChecks()
        self.ready.add("caches", caches_synced(cache))
        self._counters: dict[str, ReconcileCounters] = {}
        self._controllers: list[Controller[Any]] = []
        self.ready.add("handlers", handlers_succeeding(cache, self._controllers))
        self._queues = QueueCollector(self.registry)
        self._elections = ElectionCollector(self.registry)
        ControllerCollector(self.registry, self._counters)
        SourceCollector(self.registry, self._controllers)
        InformerCollector(self.registry, cache, asyncio.get_running_loop().time)
        self._sites: list[CountedSite] = []
        ConnectionCollector(self.registry, self._sites)
        self._clients = ClientCollector(self.registry)
        for transport in transports:
            self.watch_transport(transport)
        self.app: web.Application = build_application(
            live=self.live,
            ready=self.ready,
            registry=self.registry,
            debug=debug_application(self._controllers, cache),
        )

    def watch_controller(self, controller: Controller[Any]) -> None:
        """Export the metrics of a controller and its queue, and show both on the debug pages."""
        self._controllers.append(controller)
        self._counters[controller.name] = controller.counters
        self._queues.add(_CurrentQueue(controller))

    def watch_site(self, site: CountedSite) -> None:
        """Export the connection metrics of an HTTP site."""
        self._sites.append(site)

    def watch_transport(self, transport: Transport) -> None:
        """Export the request metrics of a transport."""
        self._clients.add(transport)

    def watch_recorder(self, recorder: Recorder) -> None:
        """Export the metrics of an event recorder."""
        EventCollector(self.registry, recorder)

    def watch_election(self, lease: str, election: LeaseElection) -> None:
        """Export whether this process leads."""
        self._elections.add(lease, election)

    def watch_loop(self, watchdog: LoopWatchdog) -> None:
        """Export the stalls of the event loop, and report not live while it is blocked."""
        LoopCollector(self.registry, watchdog)
        self.live.add("loop", loop_alive(watchdog))


@frozen
class _CurrentQueue:
    """The current queue of a controller, which gets a new one in each leadership term."""

    controller: Controller[Any]

    @property
    def name(self) -> str:
        return self.controller.name

    @property
    def counters(self) -> QueueCounters:
        return self.controller.queue.counters

    def running_seconds(self) -> list[float]:
        return self.controller.queue.running_seconds()
