"""Cancelling runs: by POST /cancel/<id>, and by a lost connection."""

import asyncio
import threading
from pathlib import Path
from typing import Any

from gpuruntime.framework import Context
from tests.framework.framework_scenes import envelope, post, served


async def test_a_sync_function_sees_that_it_is_cancelled_and_holds_its_slot_until_it_returns(tmp_path: Path) -> None:
    started = threading.Event()

    def patient(payload: Any, context: Context) -> Any:
        if payload == "wait":
            started.set()
            context.cancel_event.wait(30)
        return context.cancelled

    async with (
        served(tmp_path / "f.sock", patient) as function,
        function.connected() as one,
        function.connected() as two,
    ):
        running = asyncio.create_task(one.invoke("a:b.c", "wait"))
        await asyncio.to_thread(started.wait)
        cancelled = await two.ask(post("/cancel/a%3Ab.c"))
        answer = await running
        again = await two.ask(post("/cancel/a%3Ab.c"))
        later = await two.invoke("later", "go")

    assert cancelled == (200, {"cancelled": True})
    assert answer["body"] is True
    assert again[0] == 404
    assert later["body"] is False


async def test_an_async_function_is_cancelled_at_its_next_await(tmp_path: Path) -> None:
    started, cleaned = asyncio.Event(), asyncio.Event()

    async def patient(_payload: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    async with (
        served(tmp_path / "f.sock", patient) as function,
        function.connected() as one,
        function.connected() as two,
    ):
        running = asyncio.create_task(one.invoke("inv-1"))
        await started.wait()
        await two.ask(post("/cancel/inv-1"))
        answer = await running

    assert answer == {"statusCode": 499, "error": "cancelled"}
    assert cleaned.is_set()


async def test_what_waits_for_a_slot_is_cancelled_without_being_called(tmp_path: Path) -> None:
    called, started, gate = list[str](), asyncio.Event(), asyncio.Event()

    async def patient(_payload: Any, context: Context) -> None:
        called.append(context.id)
        started.set()
        await gate.wait()

    async with (
        served(tmp_path / "f.sock", patient) as function,
        function.connected() as one,
        function.connected() as two,
        function.connected() as three,
    ):
        first = asyncio.create_task(one.invoke("first"))
        await started.wait()
        two.send(post("/invoke", envelope("second")))
        await three.ask_until(200, post("/cancel/second"))
        answer = await two.receive()
        gate.set()
        await first

    assert b'"statusCode":499' in answer.body
    assert called == ["first"]


async def test_a_lost_connection_cancels_its_run(tmp_path: Path) -> None:
    started, cancelled = threading.Event(), threading.Event()

    def patient(_payload: Any, context: Context) -> None:
        started.set()
        if context.cancel_event.wait(30):
            cancelled.set()

    async with served(tmp_path / "f.sock", patient) as function:
        async with function.connected() as client:
            client.send(post("/invoke", envelope("inv-1")))
            await asyncio.to_thread(started.wait)

        assert await asyncio.to_thread(cancelled.wait, 30)


async def test_a_function_that_raises_because_it_was_cancelled_is_no_failure(tmp_path: Path) -> None:
    started = threading.Event()

    def patient(_payload: Any, context: Context) -> None:
        started.set()
        context.cancel_event.wait(30)
        raise TimeoutError("stopped")

    async with (
        served(tmp_path / "f.sock", patient) as function,
        function.connected() as one,
        function.connected() as two,
    ):
        running = asyncio.create_task(one.invoke("inv-1"))
        await asyncio.to_thread(started.wait)
        await two.ask(post("/cancel/inv-1"))

        assert await running == {"statusCode": 499, "error": "cancelled: TimeoutError: stopped"}
