"""The contract `envelope`, pure: what the framework gets, and what its answers mean."""

import base64
import json
from typing import Any

import pytest

from gpuruntime.dispatch.protocol import Run
from gpuruntime.dispatch.sidecar.contracts import FrameworkReply
from gpuruntime.dispatch.sidecar.envelope_contract import EnvelopeContract
from gpuruntime.dispatch.sidecar.outcomes import Outcome
from gpuruntime.framework.envelope import invocation_of

CONTRACT = EnvelopeContract("req_1", "worker-1", "team")


def sent(payload: bytes, content_type: str = "application/json", **fields: Any) -> bytes:
    run = Run(lease="l", id="inv-1", **({"attempt": 1, "timeout_millis": 0} | fields), content_type=content_type)
    return CONTRACT.request(run, payload, None if run.timeout_millis == 0 else run.timeout_millis).body


def outcome_of(answer: Any, status: int = 200) -> Outcome:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return CONTRACT.outcome(FrameworkReply(status, (), body))


def test_the_fields_are_those_of_upstream_and_ours() -> None:
    assert json.loads(sent(b'{"a": 1}', attempt=2, timeout_millis=1500, mode="sync", traceparent="00-a-b-01")) == {
        "invocationID": "inv-1",
        "serverlessRequestID": "req_1",
        "mode": "sync",
        "state": "running",
        "contentType": "application/json",
        "headers": {},
        "attributes": {},
        "attempt": 2,
        "workerName": "worker-1",
        "workerNamespace": "team",
        "timeoutSeconds": 2,
        "remainingMs": 1500,
        "traceparent": "00-a-b-01",
        "payload": {"a": 1},
    }


@pytest.mark.parametrize(
    ("payload", "content_type"),
    [
        (b'{"big": 123456789012345678901234567890, "float": 1.10}', "application/json"),
        (b'"\xc3\xa9"', "application/problem+json; charset=utf-8"),
        (b"[" * 500 + b"]" * 500, "application/json"),
    ],
)
def test_json_arrives_byte_for_byte(payload: bytes, content_type: str) -> None:
    body = sent(payload, content_type)

    assert body.endswith(b',"payload":' + payload + b"}")
    assert invocation_of(body).payload == json.loads(payload)


@pytest.mark.parametrize(
    ("payload", "content_type", "seen"),
    [
        (b"\x00\xff", "application/octet-stream", b"\x00\xff"),
        (b"text", "text/plain", b"text"),
        (b'{"a": 1}', "text/plain", b'{"a": 1}'),
        (b'"\\ud800"', "application/json", "\ud800"),
        (b"", "application/json", None),
        (b"", "image/png", b""),
    ],
)
def test_other_bytes_arrive_as_they_are(payload: bytes, content_type: str, seen: Any) -> None:
    assert invocation_of(sent(payload, content_type)).payload == seen


def test_a_payload_cannot_add_fields_to_the_envelope() -> None:
    fields = json.loads(sent(b'1, "invocationID": "other"'))

    assert fields["invocationID"] == "inv-1"
    assert base64.b64decode(fields["payloadBase64"]) == b'1, "invocationID": "other"'


@pytest.mark.parametrize(
    ("answer", "body", "content_type"),
    [
        ({"body": {"a": [1, None]}}, b'{"a":[1,null]}', "application/json"),
        ({"body": None}, b"null", "application/json"),
        ({"body": "text"}, b'"text"', "application/json"),
        ({"body": "text", "contentType": "text/plain"}, b"text", "text/plain"),
        ({"body": {"a": 1}, "contentType": "text/plain"}, b'{"a":1}', "text/plain"),
        ({"body": 123456789012345678901234567890}, b"123456789012345678901234567890", "application/json"),
        ({"body": "\ud800"}, b'"\\ud800"', "application/json"),
        ({"bodyBase64": "AP8=", "contentType": "image/png"}, b"\x00\xff", "image/png"),
        ({}, b"", ""),
    ],
)
def test_a_body_becomes_the_bytes_of_the_result(answer: Any, body: bytes, content_type: str) -> None:
    outcome = outcome_of(answer)

    assert (outcome.state.value, outcome.status_code) == ("succeeded", 200)
    assert (outcome.body, outcome.content_type) == (body, content_type)


@pytest.mark.parametrize(
    ("answer", "http_status", "status", "error"),
    [
        ({"statusCode": 200, "error": "broken"}, 200, 200, "broken"),
        ({"statusCode": 500}, 200, 500, "the framework answered with the status 500"),
        ({"error": {"code": 1}}, 200, 200, '{"code": 1}'),
        ({"error": "bad payload", "statusCode": 400}, 400, 400, "bad payload"),
        ({"ok": True}, 404, 404, "the framework answered with the status 404"),
        (b"<html>oops", 502, 502, "the framework answered with the status 502: <html>oops"),
        (b"", 500, 500, "the framework answered with the status 500: without a body"),
        (b"x" * 300, 500, 500, "the framework answered with the status 500: " + "x" * 200 + "..."),
        (b"[" * 100_000, 200, 502, "the framework answered with no valid envelope: "),
        ([], 200, 502, "the framework answered with no valid envelope: expected an object, got list"),
        ({"bodyBase64": 7}, 200, 502, "the framework answered with no valid envelope: bodyBase64: expected"),
        (b'{"body": 1e999}', 200, 502, "the framework answered with no valid envelope: "),
    ],
)
def test_an_error_a_server_error_and_what_is_no_envelope_are_failures(
    answer: Any, http_status: int, status: int, error: str
) -> None:
    outcome = outcome_of(answer, http_status)

    assert (outcome.state.value, outcome.failure_class) == ("failed", "framework_error")
    assert outcome.status_code == status
    assert outcome.error.startswith(error)


def test_values_of_the_wrong_type_are_left_out() -> None:
    outcome = outcome_of({"statusCode": "200", "contentType": 1, "headers": {"a": "1", "b": 2}, "error": "", "body": 1})

    assert (outcome.state.value, outcome.status_code, outcome.content_type) == ("succeeded", 200, "application/json")
    assert outcome.headers == {"a": "1"}
