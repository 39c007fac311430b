"""The two forms of an invocation request: a JSON object with the payload in it, or the payload alone.

::

    POST /serverless/invocations                                {"serverlessRequestID": "hello", "payload": {...}}
    POST /serverless/invocations?serverlessRequestID=hello      any bytes, of any media type
"""

import base64
import binascii
import re
from typing import Any, Final

import orjson
from aiohttp import web
from attrs import field, frozen

from gpuruntime.api.invocations import InvocationMode
from gpuruntime.api.rest.invocations import CANCEL, CONTINUE, DEFAULT_SYNC_SECONDS, InvokeBody, InvokeQuery
from gpuruntime.endpoints.server.body import check_codings, check_media_type, decoded, parse_object
from gpuruntime.endpoints.server.errors import Fault, invalid
from gpuruntime.endpoints.server.route import BodyReader
from gpuruntime.meta import EMPTY, FrozenDict, encode

__all__ = ["INVOKE_READER", "LARGEST_REQUEST", "Invoke", "read_invoke"]

LARGEST_REQUEST: Final = 12 * 2**20
"""The most bytes of a request. A payload has at most 8 MiB, which Base64 makes a third larger."""
MOST_PAYLOAD_VALUES: Final = 1_000_000
"""Limit of list items plus object fields in a JSON request. Longer payloads are sent as bytes."""

_REQUEST_ID: Final = "serverlessRequestID"
_OPTIONAL: Final = frozenset({"mode", "invocationID", "contentType"})
_JSON: Final = "application/json"
_BYTES: Final = "application/octet-stream"
_MEDIA: Final = re.compile(r"[ -~]{1,127}/[ -~]{1,127}")


@frozen
class Invoke:
    """A request to invoke a function, of either form. `own_id` is "" if the ID is to be generated."""

    request_id: str
    payload: bytes = field(repr=False)
    namespace: str | None = None
    mode: InvocationMode = InvocationMode.ASYNC
    own_id: str = ""
    content_type: str = _JSON
    headers: FrozenDict[str, str] = EMPTY
    attributes: FrozenDict[str, str] = EMPTY
    timeout_seconds: int = 0
    cancels: bool = False
    """Whether a synchronous call that takes too long is cancelled."""

    @property
    def wait_seconds(self) -> int:
        """How long a synchronous call waits."""
        return self.timeout_seconds or DEFAULT_SYNC_SECONDS

    @property
    def run_seconds(self) -> int:
        """How long a run may take; 0 is what the function says. A synchronous call limits its wait, not the run."""
        return 0 if self.mode is InvocationMode.SYNC else self.timeout_seconds


def read_invoke(request: web.Request, data: bytes, query: InvokeQuery) -> Invoke:
    """The request in a body, of the form that the query says.

    Raises:
        ApiError: 400 with what is invalid, or 415.
    """
    if query.serverless_request_id is None:
        alone = [name for name, value in encode(query).items() if value is not None]
        if alone:
            message = (
                "expected ?serverlessRequestID= with it, and the payload as the body; a JSON body has it as a field"
            )
            raise invalid(*(Fault(f"?{name}", message) for name in alone))
        check_media_type(request)
        return _of_json(data)
    check_codings(request)
    return Invoke(
        query.serverless_request_id,
        data,
        query.namespace,
        InvocationMode(query.mode or InvocationMode.ASYNC),
        query.invocation_id or "",
        _media_type(request.headers.get("Content-Type", "")),
        timeout_seconds=query.timeout_seconds or 0,
        cancels=(query.on_timeout or CONTINUE) == CANCEL,
    )


INVOKE_READER: Final = BodyReader(
    read_invoke,
    LARGEST_REQUEST,
    "With ?serverlessRequestID=: the payload, which the function gets byte by byte, with its media type.",
)


def _of_json(data: bytes) -> Invoke:
    fields = parse_object(data, MOST_PAYLOAD_VALUES)
    # The payload is no business of the rules, and may be large.
    has_payload, payload = "payload" in fields, fields.pop("payload", None)
    body = decoded(_as_upstream(fields), InvokeBody)
    if body.payload_base64 is None:
        content, default = orjson.dumps(payload), _JSON
    else:
        content, default = _of_base64(body.payload_base64, has_payload=has_payload), _BYTES
    return Invoke(
        body.serverless_request_id,
        content,
        body.namespace,
        InvocationMode(body.mode),
        body.invocation_id or "",
        body.content_type or default,
        _trimmed(body.headers),
        _trimmed(body.attributes),
        body.timeout_seconds or 0,
        cancels=body.on_timeout == CANCEL,
    )


def _as_upstream(fields: dict[str, Any]) -> dict[str, Any]:
    """Upstream takes a requestID in any case, and clients in Go send a text that they leave out as a blank one."""
    request_id = fields.get(_REQUEST_ID)
    named = {_REQUEST_ID: request_id.strip().lower()} if isinstance(request_id, str) else {}
    return {name: value for name, value in fields.items() if name not in _OPTIONAL or not _is_blank(value)} | named


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _of_base64(text: str, *, has_payload: bool) -> bytes:
    if has_payload:
        raise invalid(Fault("$.payloadBase64", "expected payload or payloadBase64, got both"))
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(Fault("$.payloadBase64", f"expected a text in Base64: {error}")) from error


def _trimmed(texts: FrozenDict[str, str]) -> FrozenDict[str, str]:
    return FrozenDict({name: value.strip() for name, value in texts.items()}) if texts else texts


def _media_type(header: str) -> str:
    return header if _MEDIA.fullmatch(header) else _BYTES
