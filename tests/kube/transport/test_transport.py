"""Requests: what is sent, what comes back, and what each misfortune is called."""

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.kube import (
    Authorization,
    CredentialsError,
    Endpoint,
    KubeError,
    NotFoundError,
    RetryPolicy,
    TooManyRequestsError,
    Transport,
    UnauthorizedError,
    UnavailableError,
    UnexpectedResponseError,
)
from gpuruntime.kube.transport.request import Request

if TYPE_CHECKING:
    from tests.kube.conftest import Serve, Tokens, TransportTo

ONCE = RetryPolicy.none()


async def failure(transport: Transport, method: str = "GET", path: str = "/x", **options: Any) -> KubeError:
    with pytest.raises(KubeError) as caught:
        await transport.send(Request(method, path, **options))
    return caught.value


def refused_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


async def test_a_request_carries_what_it_was_given_and_nothing_else(
    serve: "Serve", transport_to: "TransportTo", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", refused_url())
    seen: list[Any] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append((request.method, request.raw_path, dict(request.headers), await request.read()))
        return web.json_response({"a": 1}, status=201, headers={"Set-Cookie": "a=b", "X-Fact": "yes"})

    url = await serve(handler)
    transport = transport_to(f"{url}/prefix")
    answer = await transport.send(
        Request(
            "POST",
            "/api/v1/pods",
            params=[("labelSelector", "a in (b,c)"), ("dryRun", "All")],
            body=b"{}",
            content_type="application/merge-patch+json",
            accept="application/json;as=Table",
        )
    )
    await transport.send(Request("GET", "/api"))

    assert (answer.status, answer.headers["x-fact"], answer.json_object()) == (201, "yes", {"a": 1})
    assert seen[0] == (
        "POST",
        "/prefix/api/v1/pods?labelSelector=a%20in%20%28b%2Cc%29&dryRun=All",
        {
            "Host": url.removeprefix("http://"),
            "Authorization": "Bearer token",
            "User-Agent": "test",
            "Accept": "application/json;as=Table",
            "Accept-Encoding": "identity",
            "Content-Type": "application/merge-patch+json",
            "Content-Length": "2",
        },
        b"{}",
    )
    assert seen[1][:2] == ("GET", "/prefix/api")
    assert seen[1][2].keys() == {"Host", "Authorization", "User-Agent", "Accept", "Accept-Encoding"}


async def test_headers_that_repeat_stay_repeated(
    serve: "Serve", transport_to: "TransportTo", tokens: type["Tokens"]
) -> None:
    seen: list[list[str]] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers.getall("Impersonate-Group"))
        return web.json_response({})

    credentials = tokens(Endpoint(await serve(handler)))
    groups = CIMultiDict([("Impersonate-Group", "a"), ("Impersonate-Group", "b")])
    credentials._left.append(Authorization(CIMultiDictProxy(groups), None))
    await transport_to(credentials).send(Request("GET", "/x"))

    assert seen == [["a", "b"]]


async def test_a_body_beyond_a_mebibyte_travels_whole(serve: "Serve", transport_to: "TransportTo") -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        size = sum([len(chunk) async for chunk in request.content.iter_any()])
        return web.json_response({"size": size, "length": request.content_length})

    answer = await transport_to(await serve(handler)).send(Request("POST", "/x", body=b"x" * (3 * 2**20)))

    assert answer.json_object() == {"size": 3 * 2**20, "length": 3 * 2**20}


async def test_an_error_answer_is_the_error_it_says(serve: "Serve", transport_to: "TransportTo") -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        body = {"kind": "Status", "code": 404, "reason": "NotFound", "message": 'pods "x" not found'}
        return web.json_response(body, status=404)

    transport = transport_to(await serve(handler))
    error = await failure(transport, "GET", "/api/v1/pods/x")

    assert isinstance(error, NotFoundError)
    assert str(error) == 'GET /api/v1/pods/x: 404 NotFound: pods "x" not found'
    assert transport.counts == {("404", "GET"): 1}


async def test_a_refused_connection_was_certainly_not_executed(transport_to: "TransportTo") -> None:
    url = refused_url()
    transport = transport_to(url, retries=ONCE)

    error = await failure(transport, "POST", body=b"{}")

    assert isinstance(error, UnavailableError)
    assert error.outcome_unknown is False
    assert str(error).startswith("POST /x: ")
    assert url.removeprefix("http://") in str(error)
    assert isinstance(error.__cause__, OSError)
    assert transport.counts == {("<error>", "POST"): 1}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_whose_connection_breaks_is_sent_once_and_its_outcome_is_unknown(
    serve: "Serve", transport_to: "TransportTo", method: str
) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        await request.read()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    transport = transport_to(await serve(handler))
    error = await failure(transport, method, body=b"{}")

    assert isinstance(error, UnavailableError)
    assert error.outcome_unknown is True
    assert transport.counts == {("<error>", method): 1}


async def test_a_read_survives_two_broken_answers(serve: "Serve", transport_to: "TransportTo") -> None:
    async def cut(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.close()
        return response

    async def bad_gateway(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=502, text="<html>", content_type="text/html")

    async def good(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({})

    async def play(request: web.BaseRequest) -> web.StreamResponse:
        return await script.pop(0)(request)

    script: list[Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]] = [cut, bad_gateway, good, cut, cut, cut]
    transport = transport_to(await serve(play))
    await transport.send(Request("GET", "/x"))
    error = await failure(transport)

    assert isinstance(error, UnavailableError)
    assert transport.counts == {("<error>", "GET"): 4, ("502", "GET"): 1, ("200", "GET"): 1}


async def test_an_answer_that_does_not_come_is_a_timeout(serve: "Serve", transport_to: "TransportTo") -> None:
    arrived = asyncio.Event()

    async def handler(_: web.BaseRequest) -> web.Response:
        arrived.set()
        await asyncio.Event().wait()
        return web.Response()

    transport = transport_to(await serve(handler))
    error = await failure(transport, "PUT", body=b"{}", timeout=2.0)

    assert arrived.is_set()
    assert isinstance(error, UnavailableError)
    assert error.outcome_unknown is True
    assert str(error).startswith("PUT /x: ")
    assert "2 s" in str(error)
    assert transport.in_flight == 0


async def test_the_wait_of_a_busy_server_is_kept_and_the_last_error_is_raised(
    serve: "Serve", transport_to: "TransportTo"
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def handler(_: web.BaseRequest) -> web.Response:
        return web.json_response({"kind": "Status", "code": 429}, status=429, headers={"Retry-After": "4"})

    transport = transport_to(await serve(handler), sleep=sleep)
    error = await failure(transport, "POST", body=b"{}", timeout=60.0)

    assert isinstance(error, TooManyRequestsError)
    assert waits == [4.0] * 7
    assert transport.counts == {("429", "POST"): 8}


async def test_a_redirect_is_not_followed_and_names_the_host(serve: "Serve", transport_to: "TransportTo") -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "https://me:hush@login.example.org/?next=/x"})

    transport = transport_to(await serve(handler))
    error = await failure(transport)

    assert isinstance(error, UnexpectedResponseError)
    assert "302" in str(error)
    assert "login.example.org" in str(error)
    assert "hush" not in str(error)
    assert transport.counts == {("302", "GET"): 1}


async def test_a_page_where_json_is_expected_says_so(serve: "Serve", transport_to: "TransportTo") -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(text="<html>please log in", content_type="text/html")

    answer = await transport_to(await serve(handler)).send(Request("GET", "/x"))

    with pytest.raises(UnexpectedResponseError, match=r"GET /x: .*text/html.*please log in"):
        answer.json_object()


@pytest.mark.parametrize(("tokens_held", "codes"), [(["old", "new"], ["401", "200"]), (["old"], ["401"])])
async def test_a_refused_token_is_refreshed_and_tried_once_more(
    serve: "Serve", transport_to: "TransportTo", tokens: type["Tokens"], tokens_held: list[str], codes: list[str]
) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        good = request.headers["Authorization"] == "Bearer new"
        return web.json_response({"kind": "Status"}, status=200 if good else 401)

    credentials = tokens(Endpoint(await serve(handler)), *tokens_held)
    transport = transport_to(credentials)
    outcome = await asyncio.gather(transport.send(Request("POST", "/x", body=b"{}")), return_exceptions=True)

    assert isinstance(outcome[0], UnauthorizedError) is (codes == ["401"])
    assert transport.counts == {(code, "POST"): 1 for code in codes}
    assert credentials.refusals == 1


async def test_a_second_refusal_is_final(serve: "Serve", transport_to: "TransportTo", tokens: type["Tokens"]) -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.json_response({"kind": "Status"}, status=401)

    transport = transport_to(tokens(Endpoint(await serve(handler)), "a", "b", "c"))
    error = await failure(transport)

    assert isinstance(error, UnauthorizedError)
    assert transport.counts == {("401", "GET"): 2}


async def test_without_credentials_nothing_is_sent() -> None:
    class Broken:
        endpoint = Endpoint(refused_url())

        async def authorize(self) -> Authorization:
            raise CredentialsError("no plugin")

        async def refused(self, used: Authorization) -> bool:
            raise NotImplementedError(used)

    async with Transport(Broken(), user_agent="test") as transport:
        error = await failure(transport)

    assert isinstance(error, CredentialsError)
    assert transport.counts == {}


async def test_warnings_of_the_server_are_logged_once(
    serve: "Serve", transport_to: "TransportTo", caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        headers = CIMultiDict([("Warning", '299 - "old kind"'), ("Warning", '299 - "older field"')])
        return web.json_response({}, headers=headers)

    transport = transport_to(await serve(handler))
    with caplog.at_level(logging.WARNING):
        await transport.send(Request("GET", "/x"))
        await transport.send(Request("GET", "/x"))

    assert [vars(record)["warning"] for record in caplog.records] == ["old kind", "older field"]


async def test_a_closed_transport_is_unavailable(serve: "Serve", transport_to: "TransportTo") -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.json_response({})

    transport = transport_to(await serve(handler), retries=ONCE)
    await transport.send(Request("GET", "/x"))
    await transport.close()
    error = await failure(transport)

    assert isinstance(error, UnavailableError)
    assert str(error).startswith("GET /x: ")


async def test_a_request_waits_for_a_slot_and_a_cancelled_one_gives_it_back(
    serve: "Serve", transport_to: "TransportTo"
) -> None:
    arrived = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.Response:
        if request.path == "/slow":
            arrived.set()
            await asyncio.Event().wait()
        return web.json_response({})

    transport = transport_to(await serve(handler), max_in_flight=1)
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(transport.send(Request("GET", "/slow")))
        await arrived.wait()
        error = await failure(transport, "POST", body=b"{}", timeout=0.05)
        busy = transport.in_flight
        slow.cancel()

    assert isinstance(error, UnavailableError)
    assert error.outcome_unknown is False
    assert (busy, transport.counts) == (1, {})
    assert json.loads((await transport.send(Request("GET", "/x"))).body) == {}
    assert transport.in_flight == 0
