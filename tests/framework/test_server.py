"""The HTTP side of the framework contract, over a real unix socket."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.framework import Context, Response
from gpuruntime.framework.http_messages import HttpLimits
from tests.framework.framework_scenes import envelope, post, served


class BareError(BaseException):
    """An error that `except Exception` does not catch."""


class UnprintableError(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no text")


def hello(payload: Any, context: Context) -> Any:
    return {"hello": payload, "id": context.id, "attempt": context.attempt}


async def test_a_function_answers_many_requests_on_one_connection(tmp_path: Path) -> None:
    async with served(tmp_path / "f.sock", hello) as function, function.connected() as client:
        first = await client.invoke("inv-1", "you", attempt=2)
        second = await client.invoke("inv-2", "me")
        health = await client.ask(b"GET /healthz HTTP/1.1\r\n\r\n")

    assert first["body"] == {"hello": "you", "id": "inv-1", "attempt": 2}
    assert second["body"]["id"] == "inv-2"
    assert health == (200, {"ok": True, "running": 0})


async def test_requests_that_are_sent_ahead_are_answered_in_their_order(tmp_path: Path) -> None:
    async with served(tmp_path / "f.sock", hello) as function, function.connected() as client:
        client.send(post("/invoke", envelope("a")) + post("/nowhere") + post("/invoke", envelope("b")))
        answers = [json.loads((await client.receive()).body) for _ in range(3)]

    assert [answer["statusCode"] for answer in answers] == [200, 404, 200]
    assert [answers[0]["body"]["id"], answers[2]["body"]["id"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "status", "error"),
    [
        (post("/nowhere"), 404, "there is no /nowhere: expected /invoke or /healthz"),
        (b"GET /invoke HTTP/1.1\r\n\r\n", 405, "/invoke: expected POST, got GET"),
        (post("/healthz"), 405, "/healthz: expected GET, got POST"),
        (post("/invoke", b"no json"), 400, "body: expected the JSON object"),
        (post("/cancel/other"), 404, "there is no running invocation other"),
    ],
)
async def test_a_wrong_request_gets_an_envelope_and_keeps_the_connection(
    data: bytes, status: int, error: str, tmp_path: Path
) -> None:
    async with served(tmp_path / "f.sock", hello) as function, function.connected() as client:
        found, answer = await client.ask(data)
        later = await client.invoke("inv-2", "you")

    assert (found, answer["statusCode"]) == (status, status)
    assert error in answer["error"]
    assert later["statusCode"] == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"what is this\r\n\r\n", 400),
        (post("/invoke", b"x" * 2000), 413),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * 5000, 431),
    ],
)
async def test_what_is_no_request_is_answered_and_the_connection_closed(
    data: bytes, status: int, tmp_path: Path
) -> None:
    limits = HttpLimits(head=1000, body=1000)
    async with served(tmp_path / "f.sock", hello, limits=limits) as function, function.connected() as client:
        found, answer = await client.ask(data)

        assert (found, answer["statusCode"]) == (status, status)
        assert await client.is_closed()


async def test_a_client_that_asks_first_may_send_a_large_body(tmp_path: Path) -> None:
    body = envelope("inv-1", "x" * 3_000_000)
    async with served(tmp_path / "f.sock", hello) as function, function.connected() as client:
        client.send(f"POST /invoke HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        client.send(body)
        message = await client.receive()

    assert len(json.loads(message.body)["body"]["hello"]) == 3_000_000


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("no such model"), "ValueError: no such model"),
        (KeyError("name"), "KeyError: 'name'"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (BareError("stop"), "BareError: stop"),
        (UnprintableError(), "UnprintableError"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_that_raises_fails_its_invocation_and_not_the_process(
    error: BaseException, shown: str, is_async: bool, tmp_path: Path
) -> None:
    def failing(payload: Any) -> Any:
        if payload == "fail":
            raise error
        return payload

    async def failing_async(payload: Any) -> Any:
        return failing(payload)

    function = failing_async if is_async else failing
    async with served(tmp_path / "f.sock", function) as worker, worker.connected() as client:
        failed = await client.invoke("inv-1", "fail")
        later = await client.invoke("inv-2", "fine")

    assert failed == {"statusCode": 500, "error": shown}
    assert later["body"] == "fine"


async def test_a_sync_function_that_raises_a_cancellation_fails_its_invocation_too(tmp_path: Path) -> None:
    def failing(payload: Any) -> Any:
        if payload == "fail":
            raise asyncio.CancelledError
        return payload

    async with served(tmp_path / "f.sock", failing) as worker, worker.connected() as client:
        failed = await client.invoke("inv-1", "fail")
        later = await client.invoke("inv-2", "fine")

    assert failed == {"statusCode": 500, "error": "CancelledError"}
    assert later["body"] == "fine"


async def test_a_value_that_cannot_be_sent_is_an_error_of_the_function(tmp_path: Path) -> None:
    async with served(tmp_path / "f.sock", lambda _payload: object()) as function, function.connected() as client:
        answer = await client.invoke()

    assert answer["statusCode"] == 500
    assert "JSON cannot express" in answer["error"]


async def test_a_response_goes_through(tmp_path: Path) -> None:
    page = Response("<p>", 201, "text/html", {"X-A": "1"})
    async with served(tmp_path / "f.sock", lambda _payload: page) as function, function.connected() as client:
        answer = await client.invoke()

    assert answer == {"statusCode": 201, "contentType": "text/html", "body": "<p>", "headers": {"X-A": "1"}}


async def test_sync_functions_run_in_as_many_threads_as_allowed_and_the_rest_wait(tmp_path: Path) -> None:
    together, threads = threading.Barrier(3, timeout=30), set()

    def meeting(payload: Any) -> Any:
        threads.add(threading.get_ident())
        if payload:
            together.wait()

    async with (
        served(tmp_path / "f.sock", meeting, concurrency=3) as function,
        function.connected() as one,
        function.connected() as two,
        function.connected() as three,
    ):
        await asyncio.gather(*(client.invoke(f"inv-{n}", True) for n, client in enumerate((one, two, three))))
        for number in range(20):
            await one.invoke(f"later-{number}")

    assert len(threads) == 3
    assert threading.get_ident() not in threads


async def test_async_functions_share_the_loop_and_the_limit(tmp_path: Path) -> None:
    running, most, gate = 0, 0, asyncio.Event()

    async def counted(_payload: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            gate.set()
        await gate.wait()
        running -= 1

    async with (
        served(tmp_path / "f.sock", counted, concurrency=2) as function,
        function.connected() as one,
        function.connected() as two,
        function.connected() as three,
    ):
        await asyncio.gather(*(client.invoke(f"inv-{n}") for n, client in enumerate((one, two, three))))

    assert most == 2


async def test_the_same_id_does_not_run_twice_at_a_time(tmp_path: Path) -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    async def waiting(_payload: Any) -> str:
        started.set()
        await gate.wait()
        return "done"

    async with (
        served(tmp_path / "f.sock", waiting, concurrency=2) as function,
        function.connected() as one,
        function.connected() as two,
    ):
        first = asyncio.create_task(one.invoke("inv-1"))
        await started.wait()
        two.send(post("/invoke", envelope("inv-1")))
        refused = await two.receive()
        gate.set()

        assert refused.status == 409
        assert refused.headers["serverless-not-started"] == "true"
        assert (await first)["body"] == "done"
