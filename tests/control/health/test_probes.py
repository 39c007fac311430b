import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families

from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.health.checks import HealthChecks, NotHealthyError
from gpuruntime.control.health.probes import build_application
from gpuruntime.control.metrics.controllers import ControllerCollector
from tests.control.operator_scenes import browsing

JSON = {"Accept": "application/json"}
# As the scraper sends it.
PROMETHEUS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"


def well() -> None:
    pass


def ill() -> None:
    raise NotHealthyError("the disk is full")


async def hanging() -> None:
    await asyncio.Event().wait()


def checks(**named: object) -> HealthChecks:
    health = HealthChecks()
    for name, check in named.items():
        health.add(name, check)  # type: ignore[arg-type]  # they are checks
    return health


@asynccontextmanager
async def probing(ready: HealthChecks) -> AsyncIterator[aiohttp.ClientSession]:
    async with browsing(build_application(live=checks(), ready=ready, registry=CollectorRegistry())) as client:
        yield client


async def fetch(client: aiohttp.ClientSession, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    async with client.get(path, headers=headers) as response:
        return response.status, await response.text()


async def test_a_manager_without_checks_is_healthy() -> None:
    async with probing(checks()) as client:
        assert await fetch(client, "/healthz") == await fetch(client, "/livez") == (200, "ok")
        assert await fetch(client, "/readyz/") == (200, "ok")


async def test_failed_checks_are_named_and_their_reasons_withheld() -> None:
    async with probing(checks(ping=well, disk=ill)) as client:
        status, text = await fetch(client, "/readyz")

    assert status == 500
    assert text == "[+]ping ok\n[-]disk failed: reason withheld\nreadyz check failed\n"


async def test_liveness_and_readiness_are_independent() -> None:
    async with probing(checks(disk=ill)) as client:
        assert (await fetch(client, "/healthz"))[0] == 200
        assert (await fetch(client, "/readyz"))[0] == 500


async def test_verbose_lists_every_check_with_its_reason() -> None:
    ready = checks(ping=well)
    async with probing(ready) as client:
        assert await fetch(client, "/readyz?verbose") == (200, "[+]ping ok\nreadyz check passed\n")

        ready.add("disk", ill)

        status, text = await fetch(client, "/readyz?verbose=1")
        assert (status, text) == (500, "[+]ping ok\n[-]disk failed: the disk is full\nreadyz check failed\n")


async def test_checks_can_be_excluded() -> None:
    async with probing(checks(ping=well, disk=ill, tape=ill)) as client:
        assert (await fetch(client, "/readyz?exclude=disk"))[0] == 500
        assert await fetch(client, "/readyz?exclude=disk&exclude=tape") == (200, "ok")
        status, text = await fetch(client, "/readyz?exclude=disk&exclude=tape&exclude=typo&verbose")

    assert status == 200
    assert text.splitlines() == [
        "[+]ping ok",
        "[+]disk excluded: ok",
        "[+]tape excluded: ok",
        "warn: some health checks cannot be excluded: no matches for 'typo'",
        "readyz check passed",
    ]


async def test_each_check_has_a_path_that_shows_the_reason() -> None:
    async with probing(checks(ping=well, disk=ill)) as client:
        assert await fetch(client, "/readyz/ping") == (200, "ok")
        assert await fetch(client, "/readyz/disk") == (500, "the disk is full\n")
        assert await fetch(client, "/readyz/typo") == (404, "no check 'typo': expected one of ping, disk\n")


async def test_json_is_returned_on_request() -> None:
    async with probing(checks(ping=well, disk=ill)) as client:
        async with client.get("/readyz?exclude=typo", headers=JSON) as response:
            brief = await response.json()
        async with client.get("/readyz?verbose", headers={"Accept": "text/html, Application/JSON;q=0.9"}) as response:
            verbose = await response.json()
        async with client.get("/readyz/disk", headers=JSON) as response:
            alone = await response.json()

    assert brief == {
        "status": "failed",
        "checks": [{"name": "ping", "status": "ok"}, {"name": "disk", "status": "failed"}],
        "unknown_excludes": ["typo"],
    }
    assert verbose["checks"][1] == alone == {"name": "disk", "status": "failed", "reason": "the disk is full"}


async def test_a_check_that_hangs_is_named() -> None:
    async with probing(checks(stuck=hanging)) as client:
        status, text = await fetch(client, "/readyz?verbose")

    assert status == 500
    assert text == "[-]stuck failed: timed out after 1 s\nreadyz check failed\n"


async def test_metrics_have_the_requested_format() -> None:
    registry = CollectorRegistry()
    ControllerCollector(registry, {"units": ReconcileCounters()})
    async with browsing(build_application(live=checks(), ready=checks(), registry=registry)) as client:
        async with client.get("/metrics") as response:
            plain_type, plain = response.headers["Content-Type"], await response.text()
        async with client.get("/metrics", headers={"Accept": PROMETHEUS}) as response:
            open_type, open_metrics = response.headers["Content-Type"], await response.text()

    assert plain_type.startswith("text/plain; version=0.0.4")
    assert open_type.startswith("application/openmetrics-text; version=1.0.0")
    names = [family.name for family in text_string_to_metric_families(plain)]
    parsed = open_metrics_families(open_metrics)  # type: ignore[no-untyped-call]  # the library's own
    assert names == [family.name for family in parsed]
    assert "controller_runtime_reconcile" in names


async def test_debug_pages_are_optional() -> None:
    async with probing(checks()) as client:
        assert (await fetch(client, "/debug/tasks"))[0] == 404
