"""Bodies are parsed strictly."""

import asyncio
import logging
import threading
from io import BytesIO
from typing import Any

import orjson
import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.endpoints.server.body import (
    LARGEST_BODY,
    BodyThread,
    check_media_type,
    decoded,
    parse_object,
    read_body,
)
from gpuruntime.endpoints.server.endpoint import mount
from gpuruntime.endpoints.server.errors import ApiError
from gpuruntime.testing.virtual_time import run_virtual
from tests.endpoints.endpoint_scenes import WidgetBody, Widgets, bearer, serving_widgets

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_every_json_object_is_parsed_unchanged(value: dict[str, Any]) -> None:
    assert parse_object(orjson.dumps(value)) == value


@given(st.binary(max_size=60))
def test_any_bytes_are_either_parsed_or_rejected(data: bytes) -> None:
    try:
        found: Any = parse_object(data)
    except ApiError as error:
        found = error.status

    assert found == 400 or isinstance(found, dict)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "empty"),
        (b'{"name": "a"', "UTF-8"),
        (b'{"name": "\xff"}', "UTF-8"),
        (b'{"name": "\\ud800"}', "UTF-8"),
        (b'{"size": NaN}', "UTF-8"),
        (b'{"size": 1e999}', "UTF-8"),
        (b"[1]", "got a list"),
        (b"null", "got null"),
        (b"3", "got a number"),
        (b'{"size": 18446744073709551616}', "64 bits"),
        (b'{"size": -' + b"9" * 300 + b"}", "64 bits"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', "'b' twice"),
        (b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}", "64 levels"),
        (b'{"a": ' + b"[" * 3_000 + b"]" * 3_000 + b"}", "UTF-8"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "4000 items"),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else None,
)
def test_malformed_and_ambiguous_bodies_are_rejected(data: bytes, named: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_object(data)

    assert caught.value.status == 400
    assert named in caught.value.message


def test_an_integer_may_not_be_written_as_a_float() -> None:
    with pytest.raises(ApiError) as caught:
        decoded({"name": "a", "size": 3.0}, WidgetBody)

    (fault,) = caught.value.details
    assert fault.path == "$.size"
    assert fault.message.endswith("3.0")


def test_null_means_absent() -> None:
    found = decoded({"name": "a", "size": None}, WidgetBody)

    assert (found.name, found.size) == ("a", 1)


@pytest.mark.parametrize(
    "media", ["application/json", "application/JSON; charset=UTF-8", "application/merge-patch+json"]
)
def test_json_media_types_are_accepted(media: str) -> None:
    check_media_type(make_mocked_request("POST", "/", headers={"Content-Type": media}))


def test_the_default_media_type_of_curl_is_accepted() -> None:
    check_media_type(make_mocked_request("POST", "/", headers={"Content-Type": "application/x-www-form-urlencoded"}))
    check_media_type(make_mocked_request("POST", "/"))


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
def test_other_media_types_are_rejected(headers: dict[str, str]) -> None:
    request = make_mocked_request("POST", "/", headers=headers)

    with pytest.raises(ApiError) as caught:
        check_media_type(request)

    assert (caught.value.status, caught.value.code) == (415, "unsupported_media_type")


async def test_a_body_over_the_limit_is_rejected_with_and_without_its_length() -> None:
    widgets = Widgets()
    large = orjson.dumps({"operationID": "op-1", "name": "x" * LARGEST_BODY})

    async def pieces() -> Any:
        for begin in range(0, len(large), 2**16):
            yield large[begin : begin + 2**16]

    async with serving_widgets(widgets) as client:
        with_length = await client.post("/api/v1/widgets", data=BytesIO(large), headers=bearer("write"))
        without_length = await client.post("/api/v1/widgets", data=pieces(), headers=bearer("write"))

        assert [with_length.status, without_length.status] == [413, 413]
        assert (await without_length.json())["error"]["code"] == "request_too_large"
        assert widgets.calls == []


async def test_a_body_at_the_limit_is_read_and_validated() -> None:
    frame = len(orjson.dumps({"operationID": "op-1", "name": ""}))
    largest = orjson.dumps({"operationID": "op-1", "name": "x" * (LARGEST_BODY - frame)})

    async with serving_widgets(Widgets()) as client:
        response = await client.post("/api/v1/widgets", data=largest, headers=bearer("write"))
        error = (await response.json())["error"]

    assert (response.status, error["details"][0]["rule"]) == (400, "maxLength")
    assert len(orjson.dumps(error)) < 2000


def test_a_body_that_does_not_arrive_times_out() -> None:
    async def story() -> int:
        loop = asyncio.get_running_loop()
        protocol = BaseProtocol(loop)
        protocol.connection_made(asyncio.Transport())
        payload = StreamReader(protocol, 2**16, loop=loop)
        payload.feed_data(b"{")
        with pytest.raises(ApiError) as caught:
            await read_body(make_mocked_request("POST", "/", payload=payload))
        return caught.value.status

    assert run_virtual(story()) == 408


async def test_a_garbled_body_is_rejected() -> None:
    widgets = Widgets()

    async with serving_widgets(widgets) as client:
        reader, writer = await asyncio.open_connection(client.host, client.port)
        head = "POST /api/v1/widgets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer write\r\n"
        writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\nnonsense\r\n".encode())
        status = await asyncio.wait_for(reader.readline(), 10)
        writer.close()

    assert b" 400 " in status
    assert widgets.calls == []


async def test_a_caller_who_disconnects_within_a_body_is_audited_and_no_error_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "gpuruntime.audit")
    audited = asyncio.Event()

    def notice(_record: logging.LogRecord) -> bool:
        audited.set()
        return True

    caplog.handler.addFilter(notice)
    app = web.Application()
    mount(app, Widgets().routes(), AccessControl(Access.DEVELOPMENT))

    async with serving(app, HttpAddress()) as bound:
        _, writer = await asyncio.open_connection(bound.host, bound.port)
        writer.write(b"POST /api/v1/widgets HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        writer.close()
        await asyncio.wait_for(audited.wait(), 10)

    assert [vars(record).get("status") for record in caplog.records] == [0]


def test_validation_stops_after_one_fault_more_than_is_shown() -> None:
    body = {f"k{number}": 1 for number in range(5000)}

    with pytest.raises(ApiError) as caught:
        decoded(body, WidgetBody)

    assert len(caught.value.details) == 101


async def test_small_bodies_are_processed_at_once_and_large_ones_in_a_thread() -> None:
    thread = BodyThread()

    small = await thread.run_in_thread(threading.get_ident, 100)
    large = await thread.run_in_thread(threading.get_ident, LARGEST_BODY)

    assert small == threading.get_ident()
    assert large != small
    await thread.close(web.Application())


async def test_large_bodies_are_processed_one_at_a_time_and_not_for_cancelled_requests() -> None:
    thread, go_on, done = BodyThread(), threading.Event(), []

    def work(name: str) -> None:
        go_on.wait(30)
        done.append((name, threading.get_ident()))

    first, second, third = (
        asyncio.create_task(thread.run_in_thread(lambda name=name: work(name), LARGEST_BODY))  # type: ignore[misc]
        for name in ("first", "second", "third")
    )
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    go_on.set()
    await asyncio.wait([first, third])

    assert [name for name, _ in done] == ["first", "third"]
    assert len({ident for _, ident in done}) == 1
    await thread.close(web.Application())
