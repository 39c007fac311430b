"""The envelope: what arrives and what is sent back, any bytes included."""

import base64
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.framework import Response
from gpuruntime.framework.envelope import EnvelopeError, error_answer, invocation_of, response_answer

FULL = {
    "invocationID": "inv-1",
    "serverlessRequestID": "hello",
    "mode": "sync",
    "contentType": "application/json",
    "headers": {"x-a": "1"},
    "attributes": {"tenant": "t"},
    "payload": {"name": "you"},
    "timeoutSeconds": 30,
    "attempt": 2,
    "someday": "a field of a newer sidecar",
}


def request(**fields: Any) -> bytes:
    return json.dumps({"invocationID": "inv-1", **fields}).encode()


def test_the_fields_of_upstream_are_read() -> None:
    invocation = invocation_of(json.dumps(FULL).encode())

    assert (invocation.id, invocation.function, invocation.mode) == ("inv-1", "hello", "sync")
    assert (invocation.attempt, invocation.payload, invocation.remaining) == (2, {"name": "you"}, 30)
    assert (invocation.headers, invocation.attributes) == ({"x-a": "1"}, {"tenant": "t"})


def test_an_invocation_needs_its_id_alone() -> None:
    invocation = invocation_of(request())

    assert (invocation.payload, invocation.attempt, invocation.content_type) == (None, 1, "application/json")
    assert invocation.remaining == math.inf


def test_the_remaining_time_wins_over_the_timeout() -> None:
    assert invocation_of(request(timeoutSeconds=30, remainingMs=1500)).remaining == 1.5
    assert invocation_of(request(timeoutSeconds=0)).remaining == math.inf


@given(st.binary())
def test_any_bytes_arrive_as_they_were_sent(payload: bytes) -> None:
    encoded = base64.b64encode(payload).decode()

    assert invocation_of(request(contentType="image/png", payloadBase64=encoded)).payload == payload


def test_json_in_base64_is_parsed() -> None:
    encoded = base64.b64encode(b'{"a": 1}').decode()

    assert invocation_of(request(contentType="application/ld+json", payloadBase64=encoded)).payload == {"a": 1}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "body: expected the JSON object"),
        (b"[1]", "got list"),
        (b"\xff", "body: expected the JSON object"),
        (b"[" * 100_000, "body: expected the JSON object"),
        (b"{}", "invocationID: expected a text, got None"),
        (request(mode=1), "mode: expected a text, got 1"),
        (request(headers={"a": 1}), "headers: expected an object of texts"),
        (request(attempt="x"), "attempt: expected a number"),
        (request(timeoutSeconds=-1), "timeoutSeconds: expected a number of 0 or more, got -1"),
        (request(payload=1, payloadBase64="MQ=="), "either payload or payloadBase64"),
        (request(payloadBase64="?"), "payloadBase64: expected a text in Base64"),
        (request(payloadBase64=7), "payloadBase64: expected a text in Base64"),
        (request(payloadBase64="/w=="), "payload: expected application/json, got 1 bytes"),
    ],
)
def test_a_malformed_envelope_is_refused_by_its_field(body: bytes, message: str) -> None:
    with pytest.raises(EnvelopeError, match=message):
        invocation_of(body)


@pytest.mark.parametrize(
    ("returned", "content_type", "body"),
    [
        ({"a": [1, None]}, "application/json", {"a": [1, None]}),
        (None, "application/json", None),
        (2**80, "application/json", 2**80),
        ("text: é", "text/plain; charset=utf-8", "text: é"),
        ("\ud800", "text/plain; charset=utf-8", "\ud800"),
        (Response("<p>", content_type="text/html"), "text/html", "<p>"),
        (Response("text", content_type="application/json"), "application/json", "text"),
    ],
)
def test_values_and_text_are_sent_as_the_body(returned: Any, content_type: str, body: Any) -> None:
    answer = json.loads(response_answer(returned))

    assert answer == {"statusCode": 200, "contentType": content_type, "body": body}


@pytest.mark.parametrize("returned", [b"\xff\x00", bytearray(b"\xff\x00"), memoryview(b"\xff\x00")])
def test_bytes_are_sent_in_base64(returned: Any) -> None:
    answer = json.loads(response_answer(returned))

    assert (answer["contentType"], answer["bodyBase64"]) == ("application/octet-stream", "/wA=")


def test_a_response_chooses_status_content_type_and_headers() -> None:
    answer = json.loads(response_answer(Response(b"x", 404, "image/png", {"X-A": "1"})))

    assert answer == {"statusCode": 404, "contentType": "image/png", "bodyBase64": "eA==", "headers": {"X-A": "1"}}


async def stream() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (object(), "JSON cannot express"),
        (math.nan, "JSON cannot express"),
        ({1, 2}, "JSON cannot express"),
        (iter([1]), "streams are not supported yet"),
        (stream(), "streams are not supported yet"),
        (Response(status=99), "Response.status: expected a number from 100 to 599"),
        (Response(headers={"A": "b\r\nC: d"}), "Response.headers: expected printable text"),
    ],
)
def test_what_cannot_be_sent_is_refused(returned: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        response_answer(returned)


def test_an_error_has_a_status_and_a_sentence() -> None:
    assert json.loads(error_answer(500, "ValueError: no")) == {"statusCode": 500, "error": "ValueError: no"}
