"""NATS in a process: one connection, which never holds up anything else.

A process starts and serves while NATS is away; requests that need it are refused then. So readiness does not depend on
it, and the metrics say what is wrong.
"""

from collections.abc import Iterable
from importlib.util import find_spec

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.api.invocations import BusUser, inbox_prefix
from gpuruntime.bus import Bus
from gpuruntime.control import Manager
from gpuruntime.processes.config.nats_section import NatsSection
from gpuruntime.processes.errors import StartError

__all__ = ["BusCollector", "install_bus"]


def install_bus(manager: Manager, config: NatsSection, user: BusUser) -> Bus | None:
    """The bus of a process, which runs with the manager and has metrics there; None if NATS is not configured.

    Raises:
        StartError: NATS is configured, and its client library is not installed.
    """
    options = config.options(manager.options.name, inbox_prefix(user.name))
    if options is None:
        return None
    if find_spec("nats") is None:
        raise StartError("serverless.nats.urls needs the package nats-py: install gpuruntime[serverless]")
    bus = Bus(options)
    BusCollector(manager.observability.registry, bus)
    manager.add(bus.run, "NATS", group="always")
    return bus


class BusCollector(Collector):
    """Exports the state of the connection."""

    def __init__(self, registry: CollectorRegistry, bus: Bus) -> None:
        self._bus = bus
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        return (
            GaugeMetricFamily(
                "gpuruntime_nats_connected", "Whether this process is connected to NATS: 1 or 0.", self._bus.connected
            ),
            CounterMetricFamily(
                "gpuruntime_nats_connects",
                "Connections to NATS that were made: all but the first are reconnects.",
                self._bus.connects,
            ),
        )
