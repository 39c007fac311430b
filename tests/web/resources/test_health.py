import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp.test_utils import make_mocked_request

from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.meta import encode
from gpuruntime.service.reads.informers import NodeSummary
from gpuruntime.service.reads.inventory import InventorySnapshot
from gpuruntime.testing.virtual_time import run_virtual
from gpuruntime.web.resources.health import ClusterProbe, HealthRoutes, health_of
from tests.endpoints.token_review_scenes import ALICE, Reviewer, reviews
from tests.web.machine_scenes import api_without_cluster

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
SNAPSHOT = InventorySnapshot(
    nodes=(
        NodeSummary(is_ready=True, product="L40S", capacity=8, allocatable=8),
        NodeSummary(is_ready=False, product="A100", capacity=4, allocatable=3),
    ),
    active_units=2,
    stock_units=5,
    ready_stock_units=4,
    pools=1,
    age=1.26,
)


def test_health_has_all_fields_under_their_names() -> None:
    health = health_of(SNAPSHOT, started=STARTED, now=STARTED + timedelta(seconds=90.9), kube_error="")

    assert encode(health) == {
        "startedAt": "2026-01-01T00:00:00Z",
        "uptimeSeconds": 90,
        "kubernetesConnected": True,
        "nodeCount": 2,
        "readyNodeCount": 1,
        "activeUnitCount": 2,
        "stockUnitCount": 5,
        "availableStockUnitCount": 4,
        "stockPoolCount": 1,
        "totalGPUCapacity": 12,
        "totalGPUAllocatable": 11,
        "gpuProducts": [
            {"product": "A100", "nodeCount": 1, "capacity": 4, "allocatable": 3},
            {"product": "L40S", "nodeCount": 1, "capacity": 8, "allocatable": 8},
        ],
        "cacheAgeSeconds": 1.3,
    }


def test_while_the_api_server_is_away_health_has_the_error_and_the_last_numbers() -> None:
    health = health_of(SNAPSHOT, started=STARTED, now=STARTED, kube_error="connection refused")

    assert (health.kubernetes_connected, health.kube_error) == (False, "connection refused")
    assert health.node_count == 2


async def test_without_a_cluster_health_is_200_and_has_no_error() -> None:
    async with api_without_cluster() as api:
        status, health = await api.call("GET", "/health")

    assert (status, health["kubernetesConnected"], health["nodeCount"], health["uptimeSeconds"]) == (200, False, 0, 60)
    assert "kubeError" not in health


class Server:
    """An API server that may be away, or silent."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False
        self.is_silent = False

    async def reach(self) -> None:
        self.asked += 1
        if self.is_silent:
            await asyncio.sleep(3600)
        if self.is_away:
            raise UnavailableError("connection refused")


def test_the_api_server_is_probed_once_a_second_for_all_callers() -> None:
    server = Server()

    async def story() -> list[str]:
        probe = ClusterProbe(server.reach)
        together = await asyncio.gather(*(probe.error() for _ in range(10)))
        await asyncio.sleep(0.9)
        cached = await probe.error()
        server.is_away = True
        await asyncio.sleep(0.2)
        return [*together, cached, await probe.error()]

    errors = run_virtual(story())

    assert errors == [""] * 11 + ["connection refused"]
    assert server.asked == 2


def test_a_probe_of_a_silent_api_server_times_out() -> None:
    server = Server()
    server.is_silent = True

    async def story() -> tuple[str, float]:
        error = await ClusterProbe(server.reach).error()
        return error, asyncio.get_running_loop().time()

    error, seconds = run_virtual(story())

    assert "0.95 s" in error
    assert seconds < 1


def test_health_takes_less_than_two_seconds_while_probe_and_token_review_hang() -> None:
    server, reviewer = Server(), Reviewer()
    server.is_silent = True
    routes = HealthRoutes(lambda: SNAPSHOT, ClusterProbe(server.reach).error, lambda: STARTED, STARTED)
    known = make_mocked_request("GET", "/api/v1/health", headers={"Authorization": "Bearer alices"})
    unknown = make_mocked_request("GET", "/api/v1/health", headers={"Authorization": "Bearer bobs"})

    async def story() -> None:
        access = AccessControl(Access.CREDENTIALS, reviews(reviewer))
        await access.authenticate(known)
        reviewer.seconds = 3600
        await asyncio.sleep(60)
        began = asyncio.get_running_loop().time()
        caller, health = await access.authenticate(known), await routes.health()
        between = asyncio.get_running_loop().time()
        with pytest.raises(UnavailableError):
            await access.authenticate(unknown)

        assert (caller, health.kubernetes_connected, health.node_count) == (ALICE, False, 2)
        assert between - began < 2
        assert asyncio.get_running_loop().time() - between < 2

    run_virtual(story())
