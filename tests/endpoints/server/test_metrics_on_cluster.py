"""The metrics of a process after a claim, and the page that documents all metrics."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientSession, ClientTimeout
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import HttpAddress
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.meta import ObjectKey
from gpuruntime.processes.manager import ManagerConfig, build_manager
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.permissions import granted_account
from gpuruntime.web.app import install
from hack.generators.metrics_page import PAGE
from tests.control.scenes import managing
from tests.product_scenes import eventually, looking_on

SMALL: Final = {"specName": "g1.1", "cpu": "10m", "memory": "16Mi"}
ROW: Final = re.compile(r"\| `(\w+)` \| (\w+) \| (.*?)\| ([^|]*) \| .* \|")
STAGES: Final = ("scheduled", "started", "ready")


class Process:
    """A running process, and a caller of it."""

    def __init__(self, client: ClientSession, registry: CollectorRegistry) -> None:
        self.client = client
        self._registry = registry

    async def post(self, path: str, **body: Any) -> int:
        async with self.client.post(f"/api/v1/{path}", json=body) as answer:
            await answer.read()
            return answer.status

    async def counted(self, number: float, name: str, **labels: str) -> None:
        """Returns when a metric has this value: metrics may lag behind the writes that they count."""
        await eventually(lambda: self._registry.get_sample_value(name, labels) == number)

    async def started(self, number: float, role: str) -> None:
        """Returns when this number of units has reached every stage."""
        for stage in STAGES:
            await self.counted(number, "gpuruntime_unit_stage_seconds_count", stage=stage, role=role)

    async def scrape(self) -> str:
        async with self.client.get("/metrics") as answer:
            return await answer.text()


@asynccontextmanager
async def process(access: ClusterAccess, namespaces: Namespaces, directory: Path) -> AsyncIterator[Process]:
    """The all-in-one process with the permissions that it declares, for the length of the block."""
    config = ManagerConfig(namespaces=namespaces)
    permissions = build_manager(OFFLINE_CREDENTIALS, config).permissions
    with granted_account(access, permissions, namespace=namespaces.system, directory=directory) as account:
        server = build_manager(from_kubeconfig(account.kubeconfig), config)
        app, registry = server.manager.observability.app, server.manager.observability.registry
        install(app, server.api.routes, AccessControl(Access.DEVELOPMENT), registry)
        site = server.manager.serve(app, HttpAddress())
        async with managing(server.manager):
            await eventually(lambda: server.service.operations.is_accepting)
            async with ClientSession(site.bound.url, timeout=ClientTimeout(total=None)) as client:
                yield Process(client, registry)


def samples(text: str) -> Mapping[str, float]:
    """The samples of a scrape as they are written, buckets and sums left out."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines if "_bucket" not in name and "_sum" not in name}


def not_zero(found: Mapping[str, float], *beginnings: str) -> Mapping[str, float]:
    return {name: value for name, value in found.items() if name.startswith(beginnings) and value}


async def test_a_claim_and_its_operations_are_counted_exactly_and_every_metric_is_documented(
    product: ClusterAccess, kube_namespace: str, stock_namespace: str, tmp_path: Path
) -> None:
    namespaces = Namespaces((kube_namespace,), (stock_namespace,), kube_namespace)
    wanted = {"operationID": "order", "name": "demo", "specName": "g1.1", "image": "nginx"}
    async with (
        process(product, namespaces, tmp_path) as running,
        looking_on(product, kube_namespace, stock_namespace) as observer,
    ):
        hopeless = await running.post("gpu-units", **wanted)
        seeded = await running.post("operator/stock-units", operationID="seed", replicas=2, **SMALL)
        await running.started(2, "stock")
        await running.counted(2, "gpuruntime_stock_units", spec="g1.1", state="ready")
        claimed = [await running.post("gpu-units", **wanted) for _ in range(2)]
        await observer.units.until(lambda store: len(store.list(stock_namespace).items) == 1)
        await observer.ready(ObjectKey(kube_namespace, "demo"))
        await running.started(1, "active")
        unknown = await running.post("nothing/there")
        for type_ in ("create_gpu_unit", "seed_stock_units"):
            await running.counted(1, "gpuruntime_operation_seconds_count", type=type_, outcome="succeeded")
        await running.counted(2, "gpuruntime_operations", state="succeeded")
        await running.counted(1, "gpuruntime_units", role="stock", phase="Ready")
        await running.counted(1, "gpuruntime_units", role="active", phase="Ready")

        async with running.client.get("/api/v1/gpu-units?watch=1") as stream:
            text = await running.scrape()

    found = samples(text)
    assert (hopeless, seeded, claimed, unknown, stream.status) == (409, 202, [201, 200], 404, 200)
    assert not_zero(found, "gpuruntime_claim_seconds", "gpuruntime_operation_seconds", "gpuruntime_operations") == {
        'gpuruntime_claim_seconds_count{outcome="claimed"}': 1,
        'gpuruntime_claim_seconds_count{outcome="insufficient"}': 1,
        'gpuruntime_operation_seconds_count{outcome="succeeded",type="create_gpu_unit"}': 1,
        'gpuruntime_operation_seconds_count{outcome="succeeded",type="seed_stock_units"}': 1,
        'gpuruntime_operations{state="succeeded"}': 2,
    }
    assert not_zero(found, "gpuruntime_unit", "gpuruntime_stock_units") == {
        **{f'gpuruntime_unit_stage_seconds_count{{role="active",stage="{stage}"}}': 1 for stage in STAGES},
        **{f'gpuruntime_unit_stage_seconds_count{{role="stock",stage="{stage}"}}': 2 for stage in STAGES},
        'gpuruntime_units{phase="Ready",role="active"}': 1,
        'gpuruntime_units{phase="Ready",role="stock"}': 1,
        'gpuruntime_stock_units{spec="g1.1",state="ready"}': 1,
    }
    units = 'code="{}",method="POST",route="/api/v1/gpu-units"'
    assert found['gpuruntime_http_connections{site="127.0.0.1:0"}'] == 2
    assert not_zero(found, "gpuruntime_http_request", "gpuruntime_http_streams") == {
        **{f"gpuruntime_http_request_seconds_count{{{units.format(code)}}}": 1 for code in (200, 201, 409)},
        'gpuruntime_http_request_seconds_count{code="202",method="POST",route="/api/v1/operator/stock-units"}': 1,
        'gpuruntime_http_request_seconds_count{code="404",method="POST",route="unmatched"}': 1,
        'gpuruntime_http_request_seconds_count{code="200",method="GET",route="/api/v1/gpu-units"}': 1,
        "gpuruntime_http_requests_in_flight": 1,
        "gpuruntime_http_streams": 1,
    }
    assert_on_the_page(text)


UNCONFIGURED = (
    "gpuruntime_access_",
    "gpuruntime_archive_",
    "gpuruntime_nats_",
    "gpuruntime_invocation_commit_",
    "gpuruntime_invocation_run_",
    "gpuruntime_invocation_wait_",
    "gpuruntime_invocations_ended_total",
    "gpuruntime_invocations_executed_",
    "gpuruntime_invocations_given_back_",
    "gpuruntime_invocations_oldest_",
    "gpuruntime_invocations_queued",
    "gpuruntime_invocations_redelivered_",
    "gpuruntime_invocations_running",
    "gpuruntime_worker",
)
"""Metrics of parts that this process does not run: access gateway, NATS, archive, activator."""


def assert_on_the_page(text: str) -> None:
    """Every metric of the scrape is on the page, with its type and labels, and the other way round."""
    rows = (ROW.fullmatch(line) for line in PAGE.read_text().splitlines())
    listed = {
        row[1]: (row[2], frozenset(re.findall(r"`(\w+)`", row[3])))
        for row in rows
        if row is not None and ("every process" in row[4] or "`manager`" in row[4])
    }
    shown = {
        f"{family.name}_total" if family.type == "counter" else family.name: (
            family.type,
            frozenset(label for sample in family.samples for label in sample.labels) - {"le"},
        )
        for family in text_string_to_metric_families(text)
    }
    # No pool was made.
    silent = {name for name in listed if name.startswith("gpuruntime_pool_")}
    assert {name: listed[name] for name in listed if name not in silent and not name.startswith(UNCONFIGURED)} == {
        name: shown[name] for name in shown if name not in silent
    }
    assert silent <= shown.keys()
