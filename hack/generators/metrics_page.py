"""The tables of docs/metrics.md, generated from the registries of our processes, which are built but not run.

A table is between two comments; the first has the patterns of the names in it::

    <!-- metrics: gpuruntime_claim_* gpuruntime_operation* -->
    <!-- end of metrics -->
"""

import asyncio
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from html import escape
from pathlib import Path
from typing import Final

from aiohttp import web
from attrs import frozen
from prometheus_client import CollectorRegistry

from gpuruntime.archive.figures import ArchiveCollector, ArchiveFigures
from gpuruntime.archive.lag import ArchiveLag
from gpuruntime.archive.store import StoreSize
from gpuruntime.bus import AccountInfo, Bus, BusOptions
from gpuruntime.control.manager import Manager
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.control.watchdog.loop_watchdog import LoopWatchdog
from gpuruntime.dispatch.activator.figures import DispatchCollector, DispatchFigures
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.endpoints.server.metrics import RequestMetrics, RequestMetricsCollector
from gpuruntime.gateway.proxy.metrics import StreamCollector
from gpuruntime.gateway.proxy.streams import StreamLimits, Streams
from gpuruntime.processes.access_gateway import build_access_gateway
from gpuruntime.processes.activator import build_activator
from gpuruntime.processes.controller_manager import build_controller_manager
from gpuruntime.processes.generate.files import Generated
from gpuruntime.processes.manager import build_manager
from gpuruntime.processes.result_store import build_result_store
from gpuruntime.processes.runtime_api import build_runtime_api
from gpuruntime.processes.wiring.api_server import ApiServer
from gpuruntime.processes.wiring.nats import BusCollector
from gpuruntime.web.app import install

__all__ = ["PAGE", "MetricsPageError", "Shown", "filled", "served", "shown_in", "update"]

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
_TABLE: Final = re.compile(
    r"(?P<begin><!-- metrics: (?P<patterns>.*?) -->\n)(?P<rows>.*?)(?P<end><!-- end of metrics -->\n)", re.DOTALL
)
_HEAD: Final = "| Name | Type | Labels | Served by | Meaning |\n|---|---|---|---|---|\n"
_EVERY: Final = "every process"


class MetricsPageError(Exception):
    """The page has no table for a metric, or more than one."""


@frozen(order=True)
class Shown:
    """A metric in a scrape."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


def shown_in(registry: CollectorRegistry) -> set[Shown]:
    """The metrics in a scrape of a registry."""
    return {
        Shown(
            f"{family.name}_total" if family.type == "counter" else family.name,
            family.type,
            # All our metric classes have it; the labels of samples are not known if there are none.
            tuple(family._labelnames),  # type: ignore[attr-defined]  # noqa: SLF001 - see above
            family.documentation,
        )
        for family in registry.collect()
    }


def served() -> dict[Shown, frozenset[str]]:
    """The metrics of our processes, each with the processes that serve it."""

    async def registries() -> dict[str, CollectorRegistry]:
        return {name: _complete(build()) for name, build in _PROCESSES.items()}

    found: dict[Shown, frozenset[str]] = {}
    for name, registry in asyncio.run(registries()).items():
        for shown in shown_in(registry):
            found[shown] = found.get(shown, frozenset()) | {name}
    return found


def filled(page: str, metrics: Mapping[Shown, frozenset[str]]) -> str:
    """The page with its tables filled.

    Raises:
        MetricsPageError: the page does not have exactly one table for each metric.
    """
    tables = [match["patterns"].split() for match in _TABLE.finditer(page)]
    for shown in sorted(metrics):
        matching = sum(_belongs(shown, patterns) for patterns in tables)
        if matching != 1:
            raise MetricsPageError(f"{shown.name}: expected one table whose patterns match, found {matching}")

    def fill(match: re.Match[str]) -> str:
        mine = [shown for shown in sorted(metrics) if _belongs(shown, match["patterns"].split())]
        return f"{match['begin']}{_HEAD}{''.join(_row(shown, metrics[shown]) for shown in mine)}{match['end']}"

    return _TABLE.sub(fill, page)


def update(*, check: bool) -> int:
    """Write the tables, or only check them with `check`; 1 if one is stale or a metric has no table."""
    try:
        text = filled(PAGE.read_text(encoding="utf-8"), served())
    except MetricsPageError as error:
        print(f"{PAGE.name}: {error}; put its name into a comment of the page", file=sys.stderr)
        return 1
    generated = Generated("", {PAGE: text})
    lines = generated.stale() if check else generated.write()
    for line in lines:
        print(line, file=sys.stderr if check else sys.stdout)
    return 1 if check and lines else 0


def _with_api(server: ApiServer) -> Manager:
    install(
        web.Application(),
        server.api.routes,
        AccessControl(Access.DEVELOPMENT),
        server.manager.observability.registry,
    )
    return server.manager


def _with_streams(manager: Manager) -> Manager:
    StreamCollector(manager.observability.registry, Streams(StreamLimits()))
    return manager


def _with_requests(manager: Manager) -> Manager:
    RequestMetricsCollector(manager.observability.registry, RequestMetrics())
    return manager


def _with_nats(manager: Manager) -> Manager:
    BusCollector(manager.observability.registry, Bus(BusOptions((), manager.options.name)))
    return manager


def _with_archive(manager: Manager) -> Manager:
    figures = ArchiveFigures(ArchiveLag(0.0), pending=0, size=StoreSize(0, 0), account=AccountInfo(0, 1, 0, 0, 0))
    ArchiveCollector(manager.observability.registry, figures, lambda: 0.0)
    return manager


def _with_dispatch(manager: Manager) -> Manager:
    DispatchCollector(manager.observability.registry, DispatchFigures(), dict)
    return manager


def _complete(manager: Manager) -> CollectorRegistry:
    """The registry of a manager, with the metrics of the event loop that it has when it runs."""
    manager.observability.watch_loop(LoopWatchdog())
    return manager.observability.registry


_PROCESSES: Final[Mapping[str, Callable[[], Manager]]] = {
    "manager": lambda: _with_dispatch(
        _with_archive(_with_nats(_with_streams(_with_api(build_manager(OFFLINE_CREDENTIALS)))))
    ),
    "controller-manager": lambda: build_controller_manager(OFFLINE_CREDENTIALS),
    "runtime-api": lambda: _with_nats(_with_api(build_runtime_api(OFFLINE_CREDENTIALS))),
    "access-gateway": lambda: _with_requests(_with_streams(build_access_gateway(OFFLINE_CREDENTIALS).manager)),
    "activator": lambda: _with_nats(build_activator(OFFLINE_CREDENTIALS).manager),
    "result-store": lambda: _with_requests(_with_archive(_with_nats(build_result_store(OFFLINE_CREDENTIALS).manager))),
}


def _belongs(shown: Shown, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(shown.name, pattern) for pattern in patterns)


def _row(shown: Shown, processes: frozenset[str]) -> str:
    names = [f"`{name}`" for name in _PROCESSES if name in processes]
    where = _EVERY if len(names) == len(_PROCESSES) else ", ".join(names)
    labels = ", ".join(f"`{label}`" for label in shown.labels)
    cells = (f"`{shown.name}`", shown.type, labels, where, escape(shown.help, quote=False))
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|\n"
