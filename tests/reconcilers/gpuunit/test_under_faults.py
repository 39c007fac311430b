"""A server in trouble says nothing about a unit: it is waited for, and nothing fails."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Change
from gpuruntime.desired.rendering import Rendering
from gpuruntime.reconcilers.gpuunit.reconciler import GPUUnitOptions
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.faults import DropRequests, FailRequests, Fault, LoseResponses
from tests.control.scenes import proxied
from tests.product_scenes import Observer, create_unit, looking_on, settled
from tests.reconcilers.unit_scenes import operating

PORTS = [{"name": "http", "port": 8080}]


class Phases:
    """A subscriber that remembers every phase that a unit was in."""

    def __init__(self) -> None:
        self.seen: set[str | None] = set()

    def __call__(self, change: Change[GPUUnit]) -> None:
        if change.after is not None:
            self.seen.add(change.after.status.phase)


@pytest.fixture
async def observer(product: ClusterAccess, kube_namespace: str) -> AsyncIterator[Observer]:
    async with looking_on(product, kube_namespace) as another_client:
        yield another_client


async def test_a_failing_server_is_what_the_unit_waits_for(
    product: ClusterAccess, kube_namespace: str, observer: Observer, tmp_path: Path
) -> None:
    phases = Phases()
    await observer.units.subscribe(phases)
    async with (
        proxied(product, tmp_path) as (proxy, credentials),
        operating(
            credentials, GPUUnitOptions(Rendering(namespaces=Namespaces((kube_namespace,), ()), min_ready_seconds=0))
        ),
    ):
        with proxy.inject(FailRequests(500), method="POST", path=".*/deployments"):
            key = create_unit(product.admin(), kube_namespace, "demo", template={"ports": PORTS})
            waiting = await observer.because(key, reasons.UNIT_PROGRESSING, "cannot take the Deployment now")
        ready = await observer.ready(key)

    assert waiting.status.observed_generation is None
    assert waiting.status.service_name == "unit-demo"
    assert ready.status.observed_generation == 1
    assert "Failed" not in phases.seen


@pytest.mark.parametrize(
    "fault",
    [
        FailRequests(409, times=2),
        FailRequests(429, times=2),
        FailRequests(503, times=2),
        DropRequests(times=2),
        LoseResponses(times=2),
    ],
    ids=["conflict", "too many requests", "unavailable", "dropped", "answer lost"],
)
@pytest.mark.parametrize("call", [("POST", ".*/deployments"), ("PATCH", ".*/gpuunits/.*")], ids=["create", "status"])
async def test_a_call_that_fails_for_a_while_is_repeated_without_a_word_of_failure(
    call: tuple[str, str],
    fault: Fault,
    product: ClusterAccess,
    kube_namespace: str,
    observer: Observer,
    tmp_path: Path,
) -> None:
    phases, (method, path) = Phases(), call
    await observer.units.subscribe(phases)
    async with (
        proxied(product, tmp_path) as (proxy, credentials),
        operating(
            credentials, GPUUnitOptions(Rendering(namespaces=Namespaces((kube_namespace,), ()), min_ready_seconds=0))
        ) as operator,
    ):
        with proxy.inject(fault, method=method, path=path):
            key = create_unit(product.admin(), kube_namespace, "demo")
            await observer.ready(key)
        await settled(product, operator.controller)

    assert "Failed" not in phases.seen
    assert len(observer.deployments.store) == 1
