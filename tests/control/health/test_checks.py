import asyncio

import pytest

from gpuruntime.control.health.checks import (
    Check,
    HealthChecks,
    NotHealthyError,
    UnknownCheckError,
    Verdict,
    caches_fresh,
    caches_synced,
    loop_alive,
)
from gpuruntime.control.watchdog.loop_watchdog import LoopWatchdog
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.testing.scripted import kube_status
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.operator_scenes import MAPS, scripted_cache, serve_two_maps
from tests.control.scenes import running


def healthy() -> None:
    pass


async def also_healthy() -> None:
    await asyncio.sleep(0.5)


def unhealthy() -> None:
    raise NotHealthyError("the disk is full")


async def hanging() -> None:
    await asyncio.Event().wait()


async def impatient() -> None:
    raise TimeoutError("of its own")


def broken() -> None:
    raise KeyError("key")


def verdicts_on(**checks: Check) -> list[tuple[str, str, str]]:
    async def story() -> tuple[Verdict, ...]:
        health = HealthChecks()
        for name, check in checks.items():
            health.add(name, check)
        return await health.run()

    return [(verdict.name, verdict.status, verdict.reason) for verdict in run_virtual(story())]


def test_plain_functions_and_coroutines_both_work_and_verdicts_are_in_order() -> None:
    verdicts = verdicts_on(slow=also_healthy, quick=healthy, unhealthy=unhealthy)

    assert verdicts == [("slow", "ok", ""), ("quick", "ok", ""), ("unhealthy", "failed", "the disk is full")]


def test_a_check_that_hangs_fails_after_a_second_and_delays_no_other() -> None:
    async def story() -> tuple[float, tuple[Verdict, ...]]:
        health = HealthChecks()
        for name, check in {"stuck": hanging, "too": hanging, "slow": also_healthy}.items():
            health.add(name, check)
        verdicts = await health.run()
        return asyncio.get_running_loop().time(), verdicts

    seconds, verdicts = run_virtual(story())

    assert seconds == 1.0
    assert verdicts[0] == Verdict("stuck", "failed", "timed out after 1 s")
    assert [verdict.status for verdict in verdicts] == ["failed", "failed", "ok"]


def test_a_check_that_raises_has_failed_without_affecting_others() -> None:
    verdicts = verdicts_on(broken=broken, impatient=impatient, healthy=healthy)

    assert verdicts == [
        ("broken", "failed", "KeyError: 'key'"),
        ("impatient", "failed", "TimeoutError: of its own"),
        ("healthy", "ok", ""),
    ]


async def test_an_excluded_check_is_not_run() -> None:
    health = HealthChecks()
    health.add("unhealthy", unhealthy)
    health.add("healthy", healthy)

    verdicts = await health.run(exclude=["unhealthy", "unknown"])

    assert verdicts == (Verdict("unhealthy", "excluded"), Verdict("healthy", "ok"))


async def test_a_check_added_later_is_run_from_then_on() -> None:
    health = HealthChecks()
    assert await health.run() == ()

    health.add("unhealthy", unhealthy)

    assert await health.run() == (Verdict("unhealthy", "failed", "the disk is full"),)


async def test_a_single_check_can_be_run() -> None:
    health = HealthChecks()
    health.add("unhealthy", unhealthy)
    health.add("healthy", healthy)

    assert await health.run_one("healthy") == Verdict("healthy", "ok")
    with pytest.raises(UnknownCheckError, match=r"'other'.* unhealthy, healthy"):
        await health.run_one("other")


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_check_name_must_be_a_path_segment(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        HealthChecks().add(name, healthy)


def test_check_names_are_unique() -> None:
    health = HealthChecks()
    health.add("ping", healthy)

    with pytest.raises(ValueError, match="'ping'"):
        health.add("ping", unhealthy)


async def test_failing_and_recovering_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gpuruntime")
    states = iter([unhealthy, unhealthy, healthy, healthy])

    def changing() -> None:
        next(states)()

    health = HealthChecks()
    health.add("disk", changing)

    for _ in range(4):
        await health.run()

    reported = [(record.message, record.__dict__.get("reason")) for record in caplog.records]
    assert reported == [("health check failed", "the disk is full"), ("health check recovered", None)]


async def test_caches_are_synced_after_the_initial_list() -> None:
    async with scripted_cache() as (server, cache):
        serve_two_maps(server)
        cache.informer(ConfigMap)
        health = HealthChecks()
        health.add("caches", caches_synced(cache))
        before = await health.run_one("caches")
        async with running(cache):
            await cache.synced()

            after = await health.run_one("caches")

    assert "v1 ConfigMap" in before.reason
    assert after.status == "ok"


async def test_a_cache_that_the_server_refuses_reports_the_reason() -> None:
    async with scripted_cache() as (server, cache):
        server.on("GET", MAPS).answer(kube_status(403, "Forbidden", "configmaps is forbidden"))
        cache.informer(ConfigMap)
        check = caches_synced(cache)
        async with running(cache):
            await server.seen(2)

            with pytest.raises(NotHealthyError, match=r"v1 ConfigMap .*configmaps is forbidden"):
                check()


async def test_a_cache_of_a_kind_that_is_not_served_says_what_to_do() -> None:
    async with scripted_cache() as (server, cache):
        server.on("GET", MAPS).answer(kube_status(404, "NotFound"))
        cache.informer(ConfigMap)
        checks = HealthChecks()
        checks.add("caches", caches_synced(cache))
        async with running(cache):
            await server.seen(2, path=MAPS)

            verdict = await checks.run_one("caches")

    assert "404 NotFound" in verdict.reason
    assert "install its CRD" in verdict.reason


async def test_caches_are_fresh_while_the_server_responds() -> None:
    async with scripted_cache() as (server, cache):
        serve_two_maps(server)
        informer = cache.informer(ConfigMap)
        with pytest.raises(NotHealthyError, match="90 s: v1 ConfigMap"):
            caches_fresh(cache, 90)()
        async with running(cache):
            await cache.synced()
            caches_fresh(cache, 90)()

            informer.health[0].last_contact -= 100

            with pytest.raises(NotHealthyError, match=r"v1 ConfigMap \(100 s"):
                caches_fresh(cache, 90)()


async def test_a_loop_is_alive_while_it_is_watched_and_not_blocked_for_long() -> None:
    moment = 0.0
    watchdog = LoopWatchdog(threshold=0.5, now=lambda: moment)
    check = loop_alive(watchdog)
    with pytest.raises(NotHealthyError):
        check()

    async with watchdog:
        check()
        moment = 9.25
        with pytest.raises(NotHealthyError, match=r"9\.0 s"):
            check()
