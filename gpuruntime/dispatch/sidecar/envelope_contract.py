"""The contract `envelope`: JSON objects with upstream's field names.

A payload that is JSON by its content type is the value `payload`, byte for byte. Other bytes, and bytes that are no
JSON in spite of their content type, travel as `payloadBase64`, also if there are none. JSON of no bytes is no
`payload`. A result travels back as `body` or `bodyBase64`.
"""

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any, Final

import orjson
from attrs import frozen

from gpuruntime.api.invocations import FailureClass, InvocationState
from gpuruntime.dispatch.protocol import FRAME_LIMIT, Run
from gpuruntime.dispatch.sidecar.contracts import FrameworkReply, FrameworkRequest
from gpuruntime.dispatch.sidecar.outcomes import Outcome, failed

__all__ = ["EnvelopeContract"]

_JSON: Final = "application/json"
_OK: Final = 200
_BAD_GATEWAY: Final = 502
_SERVER_ERROR: Final = 500
_SHOWN: Final = 200
# A character of two bytes may be written as an escape of six, and bytes as Base64.
_GROWTH: Final = 6
_FIELDS_BYTES: Final = 1024 * 1024


@frozen
class EnvelopeContract:
    """Wraps payloads and unwraps results."""

    request_id: str
    worker: str
    namespace: str

    def request(self, run: Run, payload: bytes, remaining_millis: int | None) -> FrameworkRequest:
        """The request of a run."""
        content_type = run.content_type or _JSON
        fields: dict[str, Any] = {
            "invocationID": run.id,
            "serverlessRequestID": self.request_id,
            "mode": run.mode or "async",
            "state": InvocationState.RUNNING.value,
            "contentType": content_type,
            "headers": dict(run.headers),
            "attributes": dict(run.attributes),
            "attempt": run.attempt,
            "workerName": self.worker,
            "workerNamespace": self.namespace,
        }
        if remaining_millis is not None:
            fields |= {"timeoutSeconds": math.ceil(run.timeout_millis / 1000), "remainingMs": remaining_millis}
        if run.traceparent:
            fields["traceparent"] = run.traceparent
        if not (_is_json(content_type) and (not payload or _is_valid(payload))):
            fields["payloadBase64"] = base64.b64encode(payload).decode()
            payload = b""
        head = orjson.dumps(fields)
        body = b"".join((head[:-1], b',"payload":', payload, b"}")) if payload else head
        return FrameworkRequest({"Content-Type": _JSON}, body)

    def outcome(self, reply: FrameworkReply) -> Outcome:
        """How the run ended."""
        is_ok = reply.status // 100 == 2
        try:
            # Unlike orjson it keeps integers of any size.
            fields = json.loads(reply.body)
            body = _body(fields)
        except (ValueError, RecursionError) as invalid:
            if not is_ok:
                return failed(f"the framework answered with the status {reply.status}: {_shown(reply)}", reply.status)
            return failed(f"the framework answered with no valid envelope: {invalid}", _BAD_GATEWAY)
        status = _status(fields) or (_OK if is_ok else reply.status)
        error = _error(fields)
        if not error and (status >= _SERVER_ERROR or not is_ok):
            error = f"the framework answered with the status {status if is_ok else reply.status}"
        return Outcome(
            InvocationState.FAILED if error else InvocationState.SUCCEEDED,
            FailureClass.FRAMEWORK_ERROR if error else None,
            error,
            status,
            _text(fields, "contentType") or (_JSON if body else ""),
            _headers(fields),
            body,
        )

    def most_bytes(self, run: Run) -> int:
        """The limit of the run, and what an envelope may add."""
        return min(run.max_result_bytes or FRAME_LIMIT, FRAME_LIMIT) * _GROWTH + _FIELDS_BYTES


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == _JSON or kind.endswith("+json")


def _is_valid(payload: bytes) -> bool:
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError:
        return False
    return True


def _body(fields: Any) -> bytes:
    if not isinstance(fields, dict):
        raise ValueError(f"expected an object, got {type(fields).__name__}")  # noqa: TRY004 - the data is wrong
    encoded = fields.get("bodyBase64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise ValueError("bodyBase64: expected a text in Base64") from None
    if "body" not in fields:
        return b""
    body, content_type = fields["body"], _text(fields, "contentType")
    if isinstance(body, str) and content_type and not _is_json(content_type):
        return body.encode(errors="replace")
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # A lone surrogate, which only an escape can express.
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()


def _status(fields: Mapping[str, Any]) -> int:
    status = fields.get("statusCode")
    return status if isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 599 else 0


def _error(fields: Mapping[str, Any]) -> str:
    error = fields.get("error")
    if isinstance(error, str):
        return _printable(error)
    return json.dumps(error) if error else ""


def _printable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return _printable(value) if isinstance(value, str) else ""


def _headers(fields: Mapping[str, Any]) -> dict[str, str]:
    headers = fields.get("headers")
    if not isinstance(headers, dict):
        return {}
    return {_printable(name): _printable(value) for name, value in headers.items() if isinstance(value, str)}


def _shown(reply: FrameworkReply) -> str:
    text = reply.body[: _SHOWN + 1].decode(errors="replace").strip()
    return f"{text[:_SHOWN]}..." if len(text) > _SHOWN else text or "without a body"
