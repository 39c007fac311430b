"""The scripted server, as an ordinary client sees it."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from gpuruntime.testing.scripted.answers import (
    Answer,
    Begin,
    Cut,
    Hold,
    Reset,
    Send,
    Stall,
    html_page,
    kube_status,
    respond,
    watch_stream,
)
from gpuruntime.testing.scripted.server import ScriptedServer, UnscriptedRequestError
from gpuruntime.testing.scripted.watch_events import (
    added,
    bookmark,
    cut_in_pieces,
    deleted,
    error_event,
    event_of_size,
    first_half,
    in_one_chunk,
    initial_events_end,
    line_of,
    modified,
)

PODS = "/api/v1/pods"
POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "5"}}


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as client:
        yield client


async def body_of(client: aiohttp.ClientSession, path: str = PODS) -> bytes:
    async with client.get(path, params={"watch": "true"}) as response:
        return await response.read()


async def test_a_response_has_the_status_the_headers_and_the_body_of_the_script(
    server: ScriptedServer, client: aiohttp.ClientSession
) -> None:
    server.on("GET", PODS).answer(respond(203, {"items": [POD]}, {"X-Scripted": "yes"}))

    async with client.get(PODS) as response:
        body = await response.read()

    assert (response.status, response.headers["X-Scripted"], json.loads(body)) == (203, "yes", {"items": [POD]})
    assert response.content_length == len(body)


async def test_a_status_has_the_form_of_the_api_server_s(server: ScriptedServer, client: aiohttp.ClientSession) -> None:
    server.on("POST", PODS).answer(kube_status(429, "TooManyRequests", "slow down", retry_after=3))

    async with client.post(PODS, json=POD) as response:
        status = await response.json()

    assert (response.status, response.headers["Retry-After"]) == (429, "3")
    assert (status["kind"], status["code"], status["message"]) == ("Status", 429, "slow down")


async def test_an_html_page_comes_in_place_of_json(server: ScriptedServer, client: aiohttp.ClientSession) -> None:
    server.on("GET", PODS).answer(html_page(502))

    async with client.get(PODS) as response:
        page = await response.text()

    assert (response.status, response.content_type) == (502, "text/html")
    assert page.startswith("<html>")


async def test_answers_are_given_in_order_and_the_last_one_repeats(
    server: ScriptedServer, client: aiohttp.ClientSession
) -> None:
    server.on("GET", PODS).answer(respond(500), respond(503), respond(200))

    statuses = [(await client.get(PODS)).status for _ in range(5)]

    assert statuses == [500, 503, 200, 200, 200]


async def test_a_new_script_replaces_the_old_one(server: ScriptedServer, client: aiohttp.ClientSession) -> None:
    server.on("GET", PODS).answer(respond(500), respond(503))

    before = (await client.get(PODS)).status
    server.on("GET", PODS).answer(respond(200))
    after = (await client.get(PODS)).status

    assert (before, after) == (500, 200)


async def test_the_most_specific_route_answers(server: ScriptedServer, client: aiohttp.ClientSession) -> None:
    server.on("GET", ".*").answer(respond(201))
    server.on("GET", PODS, watch=True).answer(respond(202))
    server.on("GET", PODS, query={"continue": "next"}).answer(respond(203))
    server.on("GET", PODS, watch=False).answer(respond(500))

    watch, page, other = (f"{PODS}?watch=1", f"{PODS}?continue=next", "/version")
    statuses = [(await client.get(path)).status for path in (watch, page, other)]

    assert statuses == [202, 203, 201]


async def test_a_stream_carries_every_kind_of_event_to_a_clean_end(
    server: ScriptedServer, client: aiohttp.ClientSession
) -> None:
    events = [added(POD), modified(POD), deleted(POD), bookmark("6"), initial_events_end("7"), error_event(410, "Gone")]
    server.on("GET", PODS, watch=True).answer(watch_stream(*events))

    body = await body_of(client)

    assert [json.loads(line) for line in body.splitlines()] == events


async def test_lines_can_be_joined_cut_and_very_long(server: ScriptedServer, client: aiohttp.ClientSession) -> None:
    long = event_of_size(modified(POD), 5_000_000)
    parts = [in_one_chunk(added(POD), bookmark("6")), *cut_in_pieces(deleted(POD), 3), line_of(long)]
    server.on("GET", PODS, watch=True).answer(watch_stream(*parts))

    async with client.get(f"{PODS}?watch=1") as response:
        chunks, chunk = [], b""
        async for data, complete in response.content.iter_chunks():
            chunk += data
            if complete:
                chunks.append(chunk)
                chunk = b""

    assert chunks == parts


async def test_a_hold_delays_the_rest_until_it_is_released(
    server: ScriptedServer, client: aiohttp.ClientSession
) -> None:
    first, second = cut_in_pieces(added(POD), 2)
    server.on("GET", PODS, watch=True).answer(watch_stream(first, Hold(), second))

    async with client.get(f"{PODS}?watch=1") as response:
        before = await response.content.readany()
        server.release()
        after = await response.content.read()

    assert (before, after) == (first, second)


async def test_gates_have_names_and_stay_open(server: ScriptedServer, client: aiohttp.ClientSession) -> None:
    server.on("GET", PODS).answer((Hold("early"), Hold("late"), *respond(200)))

    server.release("early")
    held = asyncio.create_task(client.get(PODS))
    await server.seen(1)
    server.release("late")
    statuses = [(await held).status, (await client.get(PODS)).status]

    assert statuses == [200, 200]


async def test_a_stream_cut_in_mid_line_does_not_end_cleanly(
    server: ScriptedServer, client: aiohttp.ClientSession
) -> None:
    half = first_half(modified(POD))
    server.on("GET", PODS, watch=True).answer(watch_stream(added(POD), half, Hold(), Cut()), watch_stream(half))

    async with client.get(f"{PODS}?watch=1") as response:
        received = await response.content.readexactly(len(line_of(added(POD))) + len(half))
        server.release()
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.content.read()
    clean = await body_of(client)

    assert received == line_of(added(POD)) + half
    assert clean == half


async def test_a_reset_reaches_the_client_as_a_reset(server: ScriptedServer) -> None:
    server.on("GET", PODS).answer((Begin(200), Send(b"x"), Hold(), Reset()))

    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(f"GET {PODS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    await reader.readuntil(b"x\r\n")
    server.release()
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()

    with pytest.raises(ConnectionResetError):
        await writer.wait_closed()


@pytest.mark.parametrize("ending", [Cut(), Reset()])
async def test_a_connection_can_be_closed_without_a_response(
    server: ScriptedServer, client: aiohttp.ClientSession, ending: Cut | Reset
) -> None:
    server.on("POST", PODS).answer((ending,))

    with pytest.raises(aiohttp.ClientConnectionError):
        await client.post(PODS, json=POD)

    assert server.requests("POST")[0].json() == POD


async def test_requests_are_recorded_as_received(server: ScriptedServer, client: aiohttp.ClientSession) -> None:
    server.on("PATCH", PODS).answer(respond())
    server.on("GET", PODS, watch=True).answer(respond())
    before = asyncio.get_running_loop().time()

    await client.patch(f"{PODS}?fieldManager=me", data=b"{}", headers={"Authorization": "Bearer secret"})
    await client.get(f"{PODS}?watch=1")
    patch, watch = server.requests()

    assert (patch.method, patch.path, dict(patch.query)) == ("PATCH", PODS, {"fieldManager": "me"})
    assert (patch.headers["authorization"], patch.json(), patch.watch) == ("Bearer secret", {}, False)
    assert watch.watch
    assert before <= patch.loop_time <= watch.loop_time
    assert "secret" not in repr(patch)
    assert server.requests(watch=True) == (watch,)


async def test_the_nth_request_of_a_pattern_can_be_awaited(
    server: ScriptedServer, client: aiohttp.ClientSession
) -> None:
    server.on("GET", ".*").answer(respond())

    async with asyncio.TaskGroup() as group:
        second = group.create_task(server.seen(2, "GET", PODS, watch=True, query={"resourceVersion": "2"}))
        for path in (f"{PODS}?watch=1&resourceVersion=2", "/version", PODS, f"{PODS}?watch=1&resourceVersion=3"):
            await client.get(path)
        assert not second.done()
        await client.get(f"{PODS}?watch=1&resourceVersion=2&last=true")

    assert second.result().query["last"] == "true"


async def test_a_client_that_disconnects_ends_its_answer(server: ScriptedServer, client: aiohttp.ClientSession) -> None:
    server.on("GET", PODS, watch=True).answer(watch_stream(added(POD), Stall()))

    async with client.get(f"{PODS}?watch=1") as response:
        await response.content.readline()
    await server.idle()

    assert len(server.requests()) == 1


@pytest.mark.parametrize(
    "answer",
    [
        watch_stream(added(POD), Stall()),
        watch_stream(added(POD), Hold()),
        watch_stream(added(POD), *[line_of(event_of_size(added(POD), 5_000_000))] * 20),
    ],
    ids=["stalled", "held", "more than the client reads"],
)
async def test_closing_the_server_ends_every_connection_and_leaves_no_task(answer: Answer) -> None:
    async with aiohttp.ClientSession() as client:
        async with ScriptedServer() as server:
            server.on("GET", PODS, watch=True).answer(answer)
            server.on("GET", "/idle").answer(respond())
            responses = [await client.get(f"{server.url}{PODS}?watch=1") for _ in range(5)]
            idle = await client.get(f"{server.url}/idle")
            for response in responses:
                await response.content.readline()

        for response in responses:
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.content.read()
            response.close()
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.get(f"{server.url}/idle")

    assert idle.status == 200
    assert len(asyncio.all_tasks()) == 1


async def test_a_request_without_a_script_is_answered_and_fails_the_test() -> None:
    with pytest.raises(UnscriptedRequestError, match=r"watch /api/v1/pods \(2 times\), GET /version \(1 times\)"):
        async with ScriptedServer() as server, aiohttp.ClientSession(server.url) as client:
            statuses = [(await client.get(path)).status for path in (f"{PODS}?watch=1", f"{PODS}?watch=1", "/version")]

    assert statuses == [501, 501, 501]


async def test_unscripted_requests_become_a_note_of_an_earlier_error() -> None:
    async def fail() -> None:
        async with ScriptedServer() as server, aiohttp.ClientSession(server.url) as client:
            await client.get("/version")
            raise LookupError("first")

    with pytest.raises(LookupError, match="first") as failure:
        await fail()

    assert "GET /version (1 times)" in failure.value.__notes__[0]


async def test_an_impossible_answer_is_rejected_when_it_is_scripted(server: ScriptedServer) -> None:
    with pytest.raises(ValueError, match="response"):
        server.on("GET", PODS).answer(respond(), ())

    assert server.requests() == ()
