"""Bodies, queries and views of /serverless/invocations. The names of fields are those of upstream."""

import re
from typing import Annotated, Any, Final

from attrs import field, frozen

from gpuruntime.api.invocations import INVOCATION_ID, InvocationState
from gpuruntime.api.rest.objects import Namespace
from gpuruntime.api.rest.queries import PageQuery
from gpuruntime.api.serverless import RequestID
from gpuruntime.meta import (
    EMPTY,
    Check,
    Format,
    FrozenDict,
    Keys,
    Length,
    Pattern,
    Properties,
    Range,
    Struct,
    wire,
)

__all__ = [
    "CANCEL",
    "CONTINUE",
    "DEFAULT_SYNC_SECONDS",
    "AcceptedView",
    "InvocationQuery",
    "InvocationResultView",
    "InvocationView",
    "InvocationsQuery",
    "InvokeBody",
    "InvokeQuery",
    "StatusQuery",
]

DEFAULT_SYNC_SECONDS: Final = 30
"""How long a synchronous call waits that names no timeout."""
CONTINUE: Final = "continue"
CANCEL: Final = "cancel"

_DAY: Final = 86400
_MOST_NAMES: Final = 64
_LONGEST_NAME: Final = 256
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}")
_Mode = Annotated[str, Pattern("^(async|sync)$", description="async or sync"), Length(maximum=5)]
_OnTimeout = Annotated[str, Pattern(f"^({CONTINUE}|{CANCEL})$"), Length(maximum=8)]
_ID = Annotated[str, Length(minimum=1, maximum=128), INVOCATION_ID]
_Timeout = Annotated[int, Range(minimum=0, maximum=_DAY)]
_ContentType = Annotated[
    str,
    Length(maximum=255),
    Pattern("^[ -~]+/[ -~]+$", description="a media type, such as application/json"),
]
_Value = Annotated[str, Length(maximum=8192), Pattern("^[^\\x00-\\x1f\\x7f]*$", description="a text of one line")]
_Headers = Annotated[
    FrozenDict[str, _Value],
    Keys(
        Check(lambda name: _HEADER_NAME.fullmatch(name) is not None, expected="the name of a header, such as X-Tenant")
    ),
    Properties(maximum=_MOST_NAMES),
]
_Attributes = Annotated[
    FrozenDict[str, _Value],
    Keys(
        Check(
            lambda name: bool(name.strip()) and name.isprintable() and len(name) <= _LONGEST_NAME,
            expected=f"a name of 1 to {_LONGEST_NAME} visible characters",
        )
    ),
    Properties(maximum=_MOST_NAMES),
]
_State = Annotated[str | None, Pattern(f"^({'|'.join(InvocationState)})$"), Length(maximum=13)]
_Time = Annotated[str | None, Format("date-time")]


@frozen
class InvokeBody(Struct):
    """An invocation of a function."""

    serverless_request_id: RequestID = field(metadata=wire("serverlessRequestID"))
    """The requestID of the function."""
    namespace: Namespace | None = None
    """Namespace of the function. Without it, all namespaces of functions are searched, the first one first."""
    mode: _Mode = "async"
    """async: respond when the invocation is accepted. sync: respond with its result."""
    invocation_id: _ID | None = field(default=None, metadata=wire("invocationID"))
    """The caller's name for the invocation, unique among those of the function: sent again with the same one, it runs
    once. Generated if absent."""
    content_type: _ContentType | None = None
    """Media type of the payload. Defaults to application/json; with payloadBase64, to application/octet-stream."""
    headers: _Headers = EMPTY
    """Headers for the function."""
    attributes: _Attributes = EMPTY
    """Attributes for the function."""
    payload: Any = None
    """The payload, any JSON value."""
    payload_base64: Annotated[str | None, Length(maximum=12 * 2**20)] = None
    """The payload as bytes in Base64, instead of payload."""
    timeout_seconds: _Timeout | None = None
    """sync: how long to wait for the result; 30 by default. async: how long a run may take, at most as long as the
    function allows. 0 is the default."""
    on_timeout: _OnTimeout = CONTINUE
    """sync: what happens to the invocation when the wait is over. continue: it goes on. cancel: it is cancelled."""


@frozen
class InvokeQuery(Struct):
    """An invocation whose payload is the body of the request, byte by byte. Without serverlessRequestID the body is
    JSON, and there are no other parameters.
    """

    serverless_request_id: RequestID | None = field(default=None, metadata=wire("serverlessRequestID"))
    """The requestID of the function. With it, the body is the payload as it is, of any media type."""
    namespace: Namespace | None = None
    """Namespace of the function. Without it, all namespaces of functions are searched, the first one first."""
    mode: _Mode | None = None
    """async (the default) or sync."""
    invocation_id: _ID | None = field(default=None, metadata=wire("invocationID"))
    """The caller's name for the invocation."""
    timeout_seconds: _Timeout | None = None
    """sync: how long to wait for the result. async: how long a run may take."""
    on_timeout: _OnTimeout | None = None
    """sync: continue (the default) or cancel."""


@frozen
class InvocationQuery(Struct):
    """Which function an invocation is of. A generated ID has it in itself."""

    serverless_request_id: RequestID | None = field(default=None, metadata=wire("serverlessRequestID"))
    """The requestID of the function. Required for an ID that the caller chose, or if the function was deleted."""
    namespace: Namespace | None = None
    """Namespace of the function."""


@frozen
class StatusQuery(InvocationQuery):
    """Which function an invocation is of, and whether to wait for its end."""

    wait: Annotated[int, Range(minimum=0, maximum=600)] = 0
    """Seconds to wait for the end of the invocation. Then the response shows the state that it has."""


@frozen
class InvocationsQuery(PageQuery):
    """Which invocations, the newest first."""

    serverless_request_id: RequestID | None = field(default=None, metadata=wire("serverlessRequestID"))
    """Only invocations of the function with this requestID. Required for the states queued and running."""
    namespace: Namespace | None = None
    """Only invocations of functions in this namespace."""
    state: _State = None
    """Only invocations in this state. Without it, all that have ended."""
    since: _Time = None
    """Only invocations that ended at this time or later."""
    until: _Time = None
    """Only invocations that ended before this time."""


@frozen
class AcceptedView(Struct):
    """An accepted invocation."""

    invocation_id: str = field(metadata=wire("invocationID"))
    """Its ID."""
    serverless_request_id: str = field(metadata=wire("serverlessRequestID"))
    """The requestID of the function."""
    mode: str
    """async or sync."""
    subject: str
    """The NATS subject of the stored request."""
    result_subject: str
    """The NATS subject of its result."""
    stream: str
    """The NATS stream that has the request."""
    duplicate: bool
    """Whether the invocation was accepted before, with the same ID and the same payload."""
    accepted_at: str
    """When it was accepted."""
    state: str
    """Its state."""
    sequence: int | None = None
    """The sequence of the request in the stream. Omitted for a duplicate that has ended."""
    queue_position: int | None = None
    """Its place in the queue, 1 for the next one: an upper bound. Omitted if it is not queued."""


@frozen
class InvocationView(Struct):
    """The state of an invocation."""

    invocation_id: str = field(metadata=wire("invocationID"))
    """Its ID."""
    serverless_request_id: str = field(metadata=wire("serverlessRequestID"))
    """The requestID of the function."""
    namespace: str
    """Namespace of the function."""
    state: str
    """queued, running, succeeded, failed, expired, cancelled or dead_lettered. All but the first two are final."""
    mode: str | None = None
    """async or sync."""
    attempt: int | None = None
    """Number of the attempt that runs, or that ended it; omitted if it never ran."""
    queue_position: int | None = None
    """Its place in the queue, 1 for the next one: an upper bound. Omitted if it is not queued."""
    waiting_for: str | None = None
    """What a queued invocation waits for, other than for those before it."""
    failure_class: str | None = None
    """Why it ended without a result, in one word, such as framework_error."""
    error: str | None = None
    """Why it ended without a result."""
    status_code: int | None = None
    """The status code of the function's answer."""
    content_type: str | None = None
    """Media type of the result."""
    result_bytes: int | None = None
    """Size of the result."""
    result_expired: bool | None = None
    """Whether the result was kept for its time, and is gone."""
    worker: str | None = None
    """Name of the worker's unit."""
    worker_namespace: str | None = None
    """Namespace of the worker's unit."""
    accepted_at: str | None = None
    """When it was accepted."""
    started_at: str | None = None
    """When the last attempt began."""
    completed_at: str | None = None
    """When it ended."""
    delay_ms: int | None = None
    """Milliseconds in the queue, until now or until the last attempt began."""
    execution_ms: int | None = None
    """Milliseconds that the last attempt has run, or ran."""


@frozen
class InvocationResultView(Struct):
    """The result of an invocation."""

    invocation_id: str = field(metadata=wire("invocationID"))
    """Its ID."""
    serverless_request_id: str = field(metadata=wire("serverlessRequestID"))
    """The requestID of the function."""
    mode: str
    """async or sync."""
    state: str
    """succeeded, failed, expired, cancelled or dead_lettered."""
    duplicate: bool
    """Whether the invocation was accepted before, with the same ID and the same payload."""
    failure_class: str | None = None
    """Why it ended without a result, in one word, such as framework_error."""
    status_code: int | None = None
    """The status code of the function's answer; omitted if there was none."""
    content_type: str | None = None
    """Media type of the body."""
    headers: FrozenDict[str, str] = EMPTY
    """Headers that the function returned."""
    body: Any = None
    """What the function returned: a JSON value, or a text if the media type is a text."""
    body_base64: str | None = None
    """What the function returned, in Base64, if it is neither JSON nor a text."""
    error: str | None = None
    """Why it ended without a result."""
    worker: str | None = None
    """Name of the worker's unit."""
    worker_namespace: str | None = None
    """Namespace of the worker's unit."""
    attempt: int | None = None
    """Number of the attempt that ended it; omitted if it never ran."""
    started_at: str | None = None
    """When the last attempt began."""
    completed_at: str | None = None
    """When it ended."""
    delay_ms: int | None = None
    """Milliseconds in the queue, until the last attempt began."""
    execution_ms: int | None = None
    """Milliseconds that the last attempt ran."""
