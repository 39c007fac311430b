"""The contract `raw`, pure and with a real server of another framework."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gpuruntime.dispatch.protocol import Run
from gpuruntime.dispatch.sidecar.contracts import FrameworkReply
from gpuruntime.dispatch.sidecar.raw_contract import RawContract
from gpuruntime.meta import FrozenDict
from tests.dispatch.sidecar.scripted_activator import PATIENCE
from tests.dispatch.sidecar.sidecar_scenes import raw_server, sidecar


def run_with(headers: dict[str, str], **fields: Any) -> Run:
    return Run(lease="l", id="inv-1", attempt=3, timeout_millis=0, headers=FrozenDict(headers), **fields)


def test_a_request_has_the_callers_headers_but_those_of_a_connection_and_those_of_the_sidecar() -> None:
    headers = {
        "Authorization": "Bearer x",
        "X-Name": "Käse",
        "Content-type": "text/html",
        "Host": "evil",
        "Content-Length": "999",
        "Transfer-Encoding": "chunked",
        "Connection": "close, X-Secret",
        "X-Secret": "1",
        "serverless-attempt": "99",
        "Bad Name": "1",
        "X-Bad": "a\r\nInjected: 1",
    }

    request = RawContract().request(
        run_with(headers, content_type="text/plain", traceparent="00-a-b-01"), b"body", 1500
    )

    assert request.body == b"body"
    assert request.headers == {
        "Authorization": "Bearer x",
        "X-Name": "Käse",
        "Content-Type": "text/plain",
        "Traceparent": "00-a-b-01",
        "Serverless-Invocation-Id": "inv-1",
        "Serverless-Attempt": "3",
        "Serverless-Remaining-Ms": "1500",
    }


@pytest.mark.parametrize(
    ("status", "state"), [(200, "succeeded"), (302, "succeeded"), (404, "succeeded"), (422, "succeeded")]
)
def test_an_answer_that_is_no_server_error_is_the_result(status: int, state: str) -> None:
    outcome = RawContract().outcome(FrameworkReply(status, (("Content-Type", "text/plain"), ("X-A", "1")), b"body"))

    assert (outcome.state.value, outcome.status_code, outcome.body) == (state, status, b"body")
    assert (outcome.content_type, outcome.headers, outcome.error) == ("text/plain", {"X-A": "1"}, "")


def test_a_server_error_is_a_failure_that_keeps_the_answer() -> None:
    outcome = RawContract().outcome(FrameworkReply(503, (), b"no memory"))

    assert (outcome.state.value, outcome.failure_class, outcome.status_code) == ("failed", "framework_error", 503)
    assert (outcome.body, outcome.error) == (b"no memory", "the framework answered with the status 503")


def test_headers_of_the_answer_that_are_of_its_connection_are_left_out_and_repeated_ones_joined() -> None:
    headers = (
        ("X-A", "1"),
        ("x-a", "2"),
        ("Content-Length", "0"),
        ("Connection", "X-B"),
        ("X-B", "3"),
        ("Upgrade", "h2"),
    )

    assert RawContract().outcome(FrameworkReply(200, headers, b"")).headers == {"X-A": "1, 2"}


async def test_a_server_that_knows_nothing_of_us_gets_the_bytes_and_its_answer_is_the_result(tmp_path: Path) -> None:
    requests = []

    async def answer(request: web.Request) -> web.Response:
        requests.append((request.path, dict(request.headers), await request.read()))
        return web.Response(status=201, body=b"\x00\xff", content_type="image/png", headers={"X-Model": "é"})

    async with (
        raw_server(tmp_path / "f.sock", answer),
        sidecar(tmp_path, contract="raw", invoke_path="/v1/completions") as scene,
    ):
        activator = await scene.activator.ready_connection()
        await activator.run(payload=bytes(range(256)), content_type="image/jpeg", headers=FrozenDict({"X-A": "1"}))
        result, body = await activator.result()

    [(path, headers, received)] = requests
    assert (path, received) == ("/v1/completions", bytes(range(256)))
    assert headers == {
        "Host": "framework",
        "X-A": "1",
        "Content-Type": "image/jpeg",
        "Content-Length": "256",
        "Serverless-Invocation-Id": "inv-1",
        "Serverless-Attempt": "1",
    } | ({"Connection": "close"} if "Connection" in headers else {})
    assert (result.state, result.status_code, result.content_type, body) == ("succeeded", 201, "image/png", b"\x00\xff")
    assert result.headers["X-Model"] == "é"


async def test_cookies_of_one_invocation_do_not_reach_the_next_and_redirects_are_not_followed(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        response = web.Response(status=302, text=json.dumps(dict(request.cookies)), headers={"Location": "/other"})
        response.set_cookie("session", "secret")
        return response

    async with raw_server(tmp_path / "f.sock", answer), sidecar(tmp_path, contract="raw") as scene:
        activator = await scene.activator.ready_connection()
        results = []
        for number in range(2):
            await activator.run(f"inv-{number}")
            results.append(await activator.result())

    assert [(result.status_code, body) for result, body in results] == [(302, b"{}"), (302, b"{}")]


async def test_a_stream_that_grows_too_large_is_stopped(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(bytes(1000))
        finally:
            ended.set()

    async with raw_server(tmp_path / "f.sock", answer), sidecar(tmp_path, contract="raw") as scene:
        activator = await scene.activator.ready_connection()
        await activator.run(max_result_bytes=10_000)
        result, _ = await activator.result()
        async with asyncio.timeout(PATIENCE):
            await ended.wait()

    assert (result.state, result.failure_class) == ("failed", "result_too_large")


async def test_the_request_of_a_cancelled_run_is_closed_and_nothing_else_is_posted(tmp_path: Path) -> None:
    started, ended, paths = asyncio.Event(), asyncio.Event(), []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return web.Response()

    async with raw_server(tmp_path / "f.sock", answer), sidecar(tmp_path, contract="raw") as scene:
        activator = await scene.activator.ready_connection()
        run = await activator.run()
        async with asyncio.timeout(PATIENCE):
            await started.wait()
            await activator.cancel(run)
            result, _ = await activator.result()
            await ended.wait()

    assert result.state == "cancelled"
    assert paths == ["/invoke"]
