"""A controller in virtual time: when it runs what, and what follows from each run."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from attrs import define, field

from gpuruntime.control.controllers.controller import Controller, ControllerOptions, ReconcileTimeoutError
from gpuruntime.control.controllers.reconcile import Cause, Result, RunInfo, TerminalError
from gpuruntime.control.controllers.sources import Channel, Timer
from gpuruntime.control.queueing.rate_limiter import RateLimiter
from gpuruntime.kube.errors import KubeError, error_from_watch_status
from gpuruntime.testing.virtual_time import run_virtual


def status(code: int, reason: str = "", **details: Any) -> KubeError:
    return error_from_watch_status({"kind": "Status", "code": code, "reason": reason, "details": details})


Behaviour = Callable[[str, int], Coroutine[Any, Any, Result]]


@define
class Script:
    """A reconciler that does what a test says, and notes when it did what."""

    behaviour: Behaviour
    started: list[tuple[float, str]] = field(factory=list)
    contexts: list[RunInfo] = field(factory=list)
    running: set[str] = field(factory=set)

    async def reconcile(self, key: str, context: RunInfo) -> Result:
        assert key not in self.running, "two runs of one key at a time"
        self.running.add(key)
        self.started.append((asyncio.get_running_loop().time(), key))
        self.contexts.append(context)
        try:
            return await self.behaviour(key, len([1 for _, known in self.started if known == key]))
        finally:
            self.running.discard(key)

    def times(self, key: str) -> list[float]:
        return [round(time, 6) for time, known in self.started if known == key]


def play(
    behaviour: Behaviour,
    story: Callable[[Channel[str], Controller[str]], Coroutine[Any, Any, None]],
    *,
    limit: float = 120.0,
    concurrency: int = 1,
) -> tuple[Script, Controller[str]]:
    """Run a controller of a script while a story sends keys."""

    async def everything() -> tuple[Script, Controller[str]]:
        script = Script(behaviour)
        channel: Channel[str] = Channel()
        limits = RateLimiter(base=1.0, cap=100.0)
        settings = ControllerOptions(
            concurrency=concurrency, reconcile_timeout=limit, rate_limiter=limits, parse_key=str
        )
        controller = Controller("tests", script, [channel], options=settings)
        task = asyncio.create_task(controller.run())
        await story(channel, controller)
        await asyncio.sleep(1000)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return script, controller

    return run_virtual(everything())


async def at_once(channel: Channel[str], _controller: Controller[str]) -> None:
    channel.send("a")


async def succeed(_key: str, _count: int) -> Result:
    return Result.done()


def test_keys_sent_before_the_start_are_run_once() -> None:
    async def story(channel: Channel[str], _controller: Controller[str]) -> None:
        for key in ("a", "b", "a"):
            channel.send(key)

    script, controller = play(succeed, story)

    assert sorted(key for _, key in script.started) == ["a", "b"]
    assert controller.counters.results["success"] == 2


def test_a_hundred_changes_during_a_run_lead_to_one_more_run() -> None:
    async def slow(_key: str, _count: int) -> Result:
        await asyncio.sleep(0.01)
        return Result.done()

    async def story(channel: Channel[str], _controller: Controller[str]) -> None:
        channel.send("a")
        await asyncio.sleep(0.005)
        for _ in range(100):
            channel.send("a")

    script, _ = play(slow, story)

    assert script.times("a") == [0, 0.01]


def test_keys_run_side_by_side_up_to_the_concurrency_and_never_one_twice() -> None:
    async def slow(_key: str, _count: int) -> Result:
        await asyncio.sleep(10)
        return Result.done()

    async def story(channel: Channel[str], _controller: Controller[str]) -> None:
        for key in ("a", "b", "c"):
            channel.send(key)
        await asyncio.sleep(1)
        channel.send("a")

    script, _ = play(slow, story, concurrency=2)

    assert [(time, key) for time, key in script.started] == [(0, "a"), (0, "b"), (10, "c"), (10, "a")]


def test_failures_back_off_until_one_run_succeeds() -> None:
    async def flaky(_key: str, count: int) -> Result:
        if count in {1, 2, 3, 5}:
            raise OSError("boom")
        return Result.after(100) if count == 4 else Result.done()

    script, controller = play(flaky, at_once)

    assert script.times("a") == [0, 1, 3, 7, 107, 108]
    assert [context.attempt for context in script.contexts] == [1, 2, 3, 4, 1, 2]
    assert controller.counters.errors == 4
    assert controller.counters.results["requeue_after"] == 1


@pytest.mark.parametrize(
    ("error", "second"),
    [
        (status(409, "Conflict"), 1.0),
        (status(429, "TooManyRequests", retryAfterSeconds=17), 17.0),
        (status(403, "Forbidden"), 60.0),
        (status(503, "ServiceUnavailable", retryAfterSeconds=5), 5.0),
        (status(500, "InternalError"), 1.0),
    ],
    ids=["409", "429", "403", "503", "500"],
)
def test_each_refusal_of_the_server_has_its_own_delay(error: KubeError, second: float) -> None:
    async def refused(_key: str, count: int) -> Result:
        if count == 1:
            raise error
        return Result.done()

    script, _ = play(refused, at_once)

    assert script.times("a") == [0, second]


@pytest.mark.parametrize("error", [TerminalError("never"), status(422, "Invalid")], ids=["terminal", "422"])
def test_what_cannot_succeed_waits_for_a_change_and_starts_afresh(error: Exception) -> None:
    async def hopeless(_key: str, count: int) -> Result:
        if count == 1:
            raise OSError("boom")
        if count == 2:
            raise error
        return Result.done()

    async def story(channel: Channel[str], _controller: Controller[str]) -> None:
        channel.send("a")
        await asyncio.sleep(500)
        channel.send("a")

    script, controller = play(hopeless, story)

    assert script.times("a") == [0, 1, 500]
    assert script.contexts[2].attempt == 1
    assert controller.counters.terminal_errors == 1


def test_a_run_that_takes_too_long_is_cancelled_and_counted_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def hang(key: str, count: int) -> Result:
        if key == "a" and count == 1:
            await asyncio.Event().wait()
        return Result.done()

    async def story(channel: Channel[str], _controller: Controller[str]) -> None:
        channel.send("a")
        channel.send("b")

    script, controller = play(hang, story, limit=30)

    assert script.times("a") == [0, 31]
    assert script.times("b") == [30]
    assert controller.counters.timeouts == 1
    assert ReconcileTimeoutError.__name__ in caplog.text


def test_a_timeout_of_the_reconcilers_own_is_an_error_like_any_other() -> None:
    async def impatient(_key: str, count: int) -> Result:
        if count == 1:
            async with asyncio.timeout(2):
                await asyncio.Event().wait()
        return Result.done()

    script, controller = play(impatient, at_once)

    assert script.times("a") == [0, 3]
    assert controller.counters.timeouts == 0


def test_a_run_has_the_merged_causes_and_their_age() -> None:
    async def slow(_key: str, count: int) -> Result:
        if count == 1:
            await asyncio.sleep(10)
        return Result.done()

    async def story(channel: Channel[str], _controller: Controller[str]) -> None:
        channel.send("a", why="first")
        await asyncio.sleep(4)
        channel.send("a", why="second")
        await asyncio.sleep(1)
        channel.send("a", why="third")

    script, _ = play(slow, story)

    assert script.contexts[0].causes == (Cause("channel", "first"),)
    assert script.contexts[1].causes == (Cause("channel", "second"), Cause("channel", "third"))
    assert script.contexts[1].age == 6
    assert script.contexts[0].reconcile_id != script.contexts[1].reconcile_id


def test_stopping_starts_nothing_more_and_gives_runs_under_way_their_grace() -> None:
    ended: list[str] = []

    async def slow(key: str, _count: int) -> Result:
        try:
            await asyncio.sleep(5 if key == "quick" else 60)
        except asyncio.CancelledError:
            ended.append(f"{key} cancelled")
            raise
        ended.append(f"{key} finished")
        return Result.done()

    async def everything() -> float:
        script = Script(slow)
        channel: Channel[str] = Channel()
        controller = Controller(
            "tests", script, [channel], options=ControllerOptions(concurrency=2, grace=10, parse_key=str)
        )
        task = asyncio.create_task(controller.run())
        for key in ("quick", "slow", "never"):
            channel.send(key)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return asyncio.get_running_loop().time()

    assert run_virtual(everything()) == 11
    assert ended == ["quick finished", "slow cancelled"]


def test_a_timer_names_its_keys_again_and_again() -> None:
    async def everything() -> list[tuple[float, str]]:
        script = Script(succeed)
        timer = Timer(60.0, lambda: ["x", "y"])
        controller = Controller("tests", script, [timer], options=ControllerOptions(parse_key=str))
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(130)
        task.cancel()
        await asyncio.wait([task])
        return script.started

    assert run_virtual(everything()) == [(60, "x"), (60, "y"), (120, "x"), (120, "y")]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_something_cancelled_that_a_reconciler_awaits_is_a_failure_of_its_key_only(concurrency: int) -> None:
    async def fragile(key: str, count: int) -> Result:
        if key == "a" and count <= 3:
            shared = asyncio.ensure_future(asyncio.sleep(60))
            asyncio.get_running_loop().call_later(1, shared.cancel)
            await shared
        return Result.done()

    async def story(channel: Channel[str], _controller: Controller[str]) -> None:
        channel.send("a")
        await asyncio.sleep(100)
        channel.send("b")

    script, controller = play(fragile, story, concurrency=concurrency)

    assert script.times("a") == [0, 2, 5, 10]
    assert script.times("b") == [100]
    assert controller.counters.errors == 3


def test_a_reconciler_that_returns_nothing_fails_its_key_only() -> None:
    async def forgetful(_key: str, count: int) -> Result:
        return None if count == 1 else Result.done()  # type: ignore[return-value]  # that is the mistake

    script, _ = play(forgetful, at_once)

    assert script.times("a") == [0, 1]


def test_whatever_a_reconciler_raises_the_controller_lives(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    async def broken(key: str, count: int) -> Result:
        if key == "bad" and count == 1:
            raise RuntimeError("a bug")
        return Result.done()

    async def story(channel: Channel[str], _controller: Controller[str]) -> None:
        channel.send("bad")
        channel.send("good")

    script, _ = play(broken, story)

    assert [key for _, key in script.started] == ["bad", "good", "bad"]
    assert "RuntimeError: a bug" in caplog.text
    assert "Traceback" in caplog.text


def test_runs_that_never_wait_leave_others_their_turn() -> None:
    seen: list[int] = []
    made = 0

    async def never_wait(_key: str, _count: int) -> Result:
        nonlocal made
        made += 1
        return Result.done()

    async def look_on(channel: Channel[str], _controller: Controller[str]) -> None:
        for number in range(100):
            channel.send(f"key-{number}")
        while made < 100:
            seen.append(made)
            await asyncio.sleep(0)

    play(never_wait, look_on)

    assert len(set(seen)) >= 100
