"""The envelope of the framework contract: requests of the sidecar, and what is sent back. Pure.

The field names are those of upstream. `payload` and `body` are JSON values. Bytes that are no JSON travel as
`payloadBase64` and `bodyBase64`, so that any bytes arrive as they were sent.
"""

import base64
import binascii
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpuruntime.framework.context import Invocation

__all__ = ["EnvelopeError", "Response", "error_answer", "invocation_of", "is_json", "response_answer"]

_BYTES: Final = (bytes, bytearray, memoryview)
_JSON: Final = "application/json"


class EnvelopeError(ValueError):
    """The body of a request is no envelope. The message names the field, its value, and what was expected."""


@dataclass(frozen=True)
class Response:
    """What a function returns to choose the status, the content type or headers.

    The body is bytes, text, or anything that JSON can express. Without a content type it is application/octet-stream,
    text/plain or application/json. A status of 500 or more makes the invocation fail.
    """

    body: Any = None
    status: int = 200
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def is_json(content_type: str) -> bool:
    """Whether a content type is JSON: application/json, or one that ends in +json."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == _JSON or kind.endswith("+json")


def invocation_of(body: bytes) -> Invocation:
    """The invocation in the body of a request. Unknown fields are ignored.

    Raises:
        EnvelopeError: it is malformed.
    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise EnvelopeError(
            f"body: expected the JSON object of an invocation, got {len(body)} bytes: {error}"
        ) from None
    if not isinstance(fields, dict):
        raise EnvelopeError(f"body: expected the JSON object of an invocation, got {type(fields).__name__}")
    content_type = _text(fields, "contentType") or _JSON
    return Invocation(
        id=_text(fields, "invocationID", required=True),
        function=_text(fields, "serverlessRequestID"),
        mode=_text(fields, "mode") or "async",
        attempt=max(1, int(_number(fields, "attempt", 1))),
        content_type=content_type,
        headers=_texts(fields, "headers"),
        attributes=_texts(fields, "attributes"),
        payload=_payload(fields, content_type),
        remaining=_remaining(fields),
    )


def response_answer(returned: Any) -> bytes:
    """The envelope of what a function returned.

    Raises:
        TypeError: the value cannot be sent; the message says what can.
    """
    response = returned if isinstance(returned, Response) else Response(returned)
    _check(response)
    body = response.body
    answer: dict[str, Any] = {"statusCode": response.status}
    if isinstance(body, _BYTES):
        answer["contentType"] = response.content_type or "application/octet-stream"
        answer["bodyBase64"] = base64.b64encode(body).decode()
    elif isinstance(body, str) and not is_json(response.content_type):
        answer["contentType"] = response.content_type or "text/plain; charset=utf-8"
        answer["body"] = body
    else:
        answer["contentType"] = response.content_type or _JSON
        answer["body"] = body
    if response.headers:
        answer["headers"] = dict(response.headers)
    try:
        return _encoded(answer)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"the function returned a value that JSON cannot express: {error}; return a JSON value, bytes, text or a"
            " Response"
        ) from None


def error_answer(status: int, error: str) -> bytes:
    """The envelope of an error."""
    return _encoded({"statusCode": status, "error": error})


def _encoded(answer: Mapping[str, Any]) -> bytes:
    # A lone surrogate, which a function may return in a text, is written as an escape and not as invalid UTF-8.
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()


def _check(response: Response) -> None:
    body: Any = response.body
    status: Any = response.status
    if hasattr(body, "__next__") or hasattr(body, "__anext__"):
        raise TypeError("the function returned a generator: streams are not supported yet, return the whole value")
    if hasattr(body, "__await__"):
        raise TypeError("the function returned an awaitable: declare it with `async def`")
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
        raise TypeError(f"Response.status: expected a number from 100 to 599, got {status!r}")
    names: Iterable[tuple[Any, Any]] = [("Content-Type", response.content_type), *response.headers.items()]
    for name, value in names:
        if not isinstance(name, str) or not isinstance(value, str) or not f"{name}{value}".isprintable():
            raise TypeError(f"Response.headers: expected printable text, got {name!r}: {value!r}")


def _payload(fields: Mapping[str, Any], content_type: str) -> Any:
    encoded = fields.get("payloadBase64")
    if encoded is None:
        return fields.get("payload")
    if fields.get("payload") is not None:
        raise EnvelopeError("payload: expected either payload or payloadBase64, got both")
    try:
        payload = base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise EnvelopeError("payloadBase64: expected a text in Base64") from None
    if not is_json(content_type):
        return payload
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise EnvelopeError(
            f"payload: expected {content_type}, got {len(payload)} bytes that are not: {error}"
        ) from None


def _remaining(fields: Mapping[str, Any]) -> float:
    if fields.get("remainingMs") is not None:
        return _number(fields, "remainingMs", 0) / 1000
    return _number(fields, "timeoutSeconds", 0) or math.inf


def _text(fields: Mapping[str, Any], name: str, *, required: bool = False) -> str:
    value = fields.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value):
        raise EnvelopeError(f"{name}: expected a text, got {value!r}")
    return value


def _texts(fields: Mapping[str, Any], name: str) -> Mapping[str, str]:
    value = fields.get(name) or {}
    if not isinstance(value, dict) or not all(isinstance(inner, str) for inner in value.values()):
        raise EnvelopeError(f"{name}: expected an object of texts, got {value!r}")
    return value


def _number(fields: Mapping[str, Any], name: str, default: float) -> float:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise EnvelopeError(f"{name}: expected a number of 0 or more, got {value!r}")
    return value
