"""The page of metrics lists what a scrape shows, and nothing else."""

import re
from pathlib import Path
from typing import NamedTuple

from attrs import frozen
from prometheus_client import CollectorRegistry

from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.operations.client_metrics import ClientCollector
from gpuruntime.control.operations.controller_metrics import ControllerCollector
from gpuruntime.control.operations.election_metrics import ElectionCollector
from gpuruntime.control.operations.informer_metrics import InformerCollector
from gpuruntime.control.operations.loop_metrics import LoopCollector
from gpuruntime.control.operations.watchdog import LoopWatchdog
from gpuruntime.control.queueing.queue_metrics import QueueCollector
from gpuruntime.control.queueing.workqueue import WorkQueue
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.testing.scripted_answers import respond
from tests.control.operator_scenes import open_transport, scripted_cache

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"\| `(?P<name>\w+)` \| (?P<type>\w+) \| (?P<labels>[^|]*)\| (?P<meaning>\S.*) \|")


class Listed(NamedTuple):
    name: str
    type: str
    labels: frozenset[str]


@frozen
class Standing:
    is_leader: bool = True
    slow_paths: int = 0


def on_the_page() -> list[Listed]:
    rows = [ROW.fullmatch(line) for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [Listed(row["name"], row["type"], frozenset(re.findall(r"`(\w+)`", row["labels"]))) for row in rows if row]


def in_a_scrape(registry: CollectorRegistry) -> set[Listed]:
    return {
        Listed(
            f"{family.name}_total" if family.type == "counter" else family.name,
            family.type,
            frozenset(label for sample in family.samples for label in sample.labels) - {"le"},
        )
        for family in registry.collect()
    }


async def test_the_page_lists_every_metric_with_its_type_and_labels() -> None:
    registry = CollectorRegistry()
    QueueCollector(registry).add(WorkQueue[str]("units"))
    ControllerCollector(registry, {"units": ReconcileCounters()})
    ElectionCollector(registry).add("units", Standing())
    LoopCollector(registry, LoopWatchdog())
    async with scripted_cache() as (server, cache), open_transport(server.url) as transport:
        server.on("GET", "/version").answer(respond(200, {}))
        await transport.request("GET", "/version")
        ClientCollector(registry).add(transport, server.url)
        cache.informer(ConfigMap)
        InformerCollector(registry, cache, lambda: 0.0)

        scraped = in_a_scrape(registry)

    assert set(on_the_page()) == scraped


def test_the_page_lists_no_metric_twice_and_every_row_is_well_formed() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]

    listed = [metric.name for metric in on_the_page()]

    assert len(listed) == len(set(listed)) == len(rows)
