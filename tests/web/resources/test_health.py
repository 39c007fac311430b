import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp.test_utils import make_mocked_request

from gpuruntime.kube.errors import UnavailableError
from gpuruntime.meta import encode
from gpuruntime.service.reads.inventory import InventorySnapshot
from gpuruntime.service.reads.node_summary import NodeSummary
from gpuruntime.testing.virtual_time import run_virtual
from gpuruntime.web.auth.access_control import Access, AccessControl
from gpuruntime.web.resources.health import ClusterProbe, HealthPages, health_of
from tests.web.machine_scenes import api_without_cluster
from tests.web.review_scenes import ALICE, Reviewer, reviews

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
TAKEN = InventorySnapshot(
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


def test_everything_is_told_under_its_name() -> None:
    health = health_of(TAKEN, started=STARTED, now=STARTED + timedelta(seconds=90.9), kube_error="")

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


def test_that_the_cluster_is_away_is_told_with_the_last_figures() -> None:
    health = health_of(TAKEN, started=STARTED, now=STARTED, kube_error="connection refused")

    assert (health.kubernetes_connected, health.kube_error) == (False, "connection refused")
    assert health.node_count == 2


async def test_without_a_cluster_it_is_200_and_has_no_error_to_tell() -> None:
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


def test_the_server_is_asked_once_a_second_however_many_want_to_know() -> None:
    server = Server()

    async def story() -> list[str]:
        probe = ClusterProbe(server.reach)
        together = await asyncio.gather(*(probe.error() for _ in range(10)))
        await asyncio.sleep(0.9)
        remembered = await probe.error()
        server.is_away = True
        await asyncio.sleep(0.2)
        return [*together, remembered, await probe.error()]

    told = run_virtual(story())

    assert told == [""] * 11 + ["connection refused"]
    assert server.asked == 2


def test_a_silent_server_holds_nobody_up_for_two_seconds() -> None:
    server = Server()
    server.is_silent = True

    async def story() -> tuple[str, float]:
        error = await ClusterProbe(server.reach).error()
        return error, asyncio.get_running_loop().time()

    error, seconds = run_virtual(story())

    assert error == "the API server did not answer within 0.95 s"
    assert seconds < 1


def test_a_silent_server_that_tells_callers_too_holds_nobody_up_for_two_seconds() -> None:
    server, reviewer = Server(), Reviewer()
    server.is_silent = True
    pages = HealthPages(lambda: TAKEN, ClusterProbe(server.reach).error, lambda: STARTED, STARTED)
    known = make_mocked_request("GET", "/api/v1/health", headers={"Authorization": "Bearer alices"})
    unknown = make_mocked_request("GET", "/api/v1/health", headers={"Authorization": "Bearer bobs"})

    async def story() -> None:
        gate = AccessControl(Access.CREDENTIALS, reviews(reviewer))
        await gate.admit(known)
        reviewer.seconds = 3600
        await asyncio.sleep(60)
        began = asyncio.get_running_loop().time()
        caller, health = await gate.admit(known), await pages.health()
        between = asyncio.get_running_loop().time()
        with pytest.raises(UnavailableError):
            await gate.admit(unknown)

        assert (caller, health.kubernetes_connected, health.node_count) == (ALICE, False, 2)
        assert between - began < 2
        assert asyncio.get_running_loop().time() - between < 2

    run_virtual(story())
