"""What is stored of an invocation: the queued request, the run, and the result.

The body of a message is the caller's bytes or the function's bytes, unchanged. Everything else is one header with JSON
in ASCII, because a header of NATS is a line of text.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Final, TypeVar

import orjson
from attrs import field, frozen

from gpuruntime.api.invocations.states import InvocationMode, InvocationState
from gpuruntime.meta import EMPTY, DecodeError, FrozenDict, Range, Struct, decode_bytes, encode

__all__ = [
    "METADATA_HEADER",
    "MessageError",
    "QueuedInvocation",
    "ResultRecord",
    "RunRecord",
    "metadata_headers",
    "read_queued",
    "read_result",
    "read_run",
    "request_hash",
]

METADATA_HEADER: Final = "Gpuruntime-Metadata"
"""The header of a stored message that has all but the body."""

S = TypeVar("S", bound=Struct)

_Count = Annotated[int, Range(minimum=0, maximum=2**53)]


class MessageError(Exception):
    """A stored message cannot be read: another program wrote it."""


@frozen
class QueuedInvocation(Struct):
    """A request as it waits in the queue. The body of the message is the payload."""

    request_hash: str
    """The hash of what the caller asked for: it distinguishes a repeated request from another one with the same ID."""
    mode: str = InvocationMode.ASYNC.value
    content_type: str = "application/json"
    headers: FrozenDict[str, str] = EMPTY
    """Headers for the function, given by the caller."""
    attributes: FrozenDict[str, str] = EMPTY
    timeout_millis: _Count = 0
    """How long a run may take. 0 means the function's own timeout."""
    queue_ttl_millis: _Count = 0
    """How long the request may wait, counted from the time at which NATS stored it. 0 means the function's own."""
    reply: str = ""
    """Inbox of the API process that waits for the result, which gets a copy of the stored result message."""
    traceparent: str = ""


@frozen
class RunRecord(Struct):
    """Who runs an invocation, for its status. It may be missing or old: only the result decides."""

    attempt: _Count
    worker: str
    """Name of the worker's GPUUnit."""
    pod_uid: str
    started_at: str
    """RFC 3339, by the clock of the activator."""


@frozen
class ResultRecord(Struct):
    """How an invocation ended. The body of the message is what the function returned, or empty."""

    state: str
    """One of the terminal states."""
    request_hash: str = ""
    mode: str = InvocationMode.ASYNC.value
    failure_class: str = ""
    error: str = ""
    """A sentence for people; empty if it succeeded."""
    status_code: _Count = 0
    """The function's status code; 0 if it did not answer."""
    content_type: str = ""
    headers: FrozenDict[str, str] = EMPTY
    """Headers that the function returned."""
    attempt: _Count = 0
    """Number of the attempt that ended it; 0 if it never ran."""
    worker: str = ""
    worker_namespace: str = ""
    accepted_at: str = ""
    """RFC 3339: when NATS stored the request."""
    started_at: str = ""
    """RFC 3339; empty if it never ran."""
    ended_at: str = ""
    delay_millis: _Count = 0
    """Time in the queue, until the last attempt began."""
    execution_millis: _Count = 0
    """Time of the last attempt, measured by the worker."""

    result_ttl_millis: _Count = field(default=0)
    """How long the result is kept, counted from `ended_at`."""


def request_hash(
    payload: bytes,
    *,
    content_type: str,
    headers: Mapping[str, str] = EMPTY,
    attributes: Mapping[str, str] = EMPTY,
    timeout_millis: int = 0,
) -> str:
    """The hash of what a caller asks for. The mode is no part of it: a repeated request may wait or not."""
    parts = [content_type, sorted(headers.items()), sorted(attributes.items()), timeout_millis]
    digest = sha256(orjson.dumps(parts))
    digest.update(b"\n")
    digest.update(payload)
    return digest.hexdigest()[:32]


def metadata_headers(record: QueuedInvocation | RunRecord | ResultRecord) -> dict[str, str]:
    """The headers of a message that stores the record."""
    document = encode(record)
    text = orjson.dumps(document).decode()
    # Only `json` escapes what is not ASCII; it takes several times as long.
    return {METADATA_HEADER: text if text.isascii() else json.dumps(document, separators=(",", ":"))}


def read_queued(headers: Mapping[str, str]) -> QueuedInvocation:
    """The request of a queued message.

    Raises:
        MessageError: the header is missing or malformed.
    """
    return _read(QueuedInvocation, headers)


def read_run(headers: Mapping[str, str]) -> RunRecord:
    """The run of a message.

    Raises:
        MessageError: the header is missing or malformed.
    """
    return _read(RunRecord, headers)


def read_result(headers: Mapping[str, str]) -> ResultRecord:
    """The result of a message.

    Raises:
        MessageError: the header is missing or malformed, or the state is not terminal.
    """
    record = _read(ResultRecord, headers)
    if record.state not in _TERMINAL:
        raise MessageError(f"expected one of the states {', '.join(sorted(_TERMINAL))}, got {record.state!r}")
    return record


def _read(cls: type[S], headers: Mapping[str, str]) -> S:
    text = headers.get(METADATA_HEADER)
    if text is None:
        raise MessageError(f"the message has no header {METADATA_HEADER}")
    try:
        return decode_bytes(cls, text.encode())
    except DecodeError as error:
        raise MessageError(f"the header {METADATA_HEADER} is malformed: {error}") from error


_TERMINAL: Final = frozenset(state.value for state in InvocationState if state.is_terminal)
