"""Scripted answers: an answer is a tuple of steps that the server executes in order.

Answers can be combined: `(Hold(), *respond(200, {}))` answers late, `(Reset(),)` not at all. A response that was begun
and not cut off ends cleanly after the last step.
"""

import json
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from gpuruntime.testing.scripted.watch_events import WatchEvent, line_of, status_object

__all__ = [
    "Answer",
    "Begin",
    "Cut",
    "Hold",
    "Reset",
    "Respond",
    "Send",
    "Stall",
    "Step",
    "check_answer",
    "html_page",
    "kube_status",
    "respond",
    "watch_stream",
]

_JSON = {"Content-Type": "application/json"}
_HTML = {"Content-Type": "text/html"}
_PAGE = "<html><head><title>{0}</title></head><body><h1>{0}</h1><hr>proxy</body></html>\n"


@frozen
class Respond:
    """A complete response with a Content-Length."""

    status: int
    headers: Mapping[str, str] = field(factory=dict)
    body: bytes = b""


@frozen
class Begin:
    """The head of a response with a chunked body."""

    status: int
    headers: Mapping[str, str] = field(factory=dict)


@frozen
class Send:
    """One chunk of the body of a response that was begun.

    Consecutive chunks may reach the client together; a `Hold` between them keeps them apart.
    """

    data: bytes


@frozen
class Hold:
    """Continue once `ScriptedServer.release(gate)` has been called, before or after this step was reached."""

    gate: str = "gate"


@frozen
class Stall:
    """Keep the connection open without sending anything until the client disconnects."""


@frozen
class Cut:
    """Close the connection in the middle of the response or before it: what was sent still arrives."""


@frozen
class Reset:
    """Reset the TCP connection: the client gets an error, and may lose data that it had not read."""


Step = Respond | Begin | Send | Hold | Stall | Cut | Reset
Answer = tuple[Step, ...]


def check_answer(answer: Answer) -> None:
    """Reject an impossible answer: a body without a head, a second head, steps after the end, or no response.

    Raises:
        ValueError: names the step and the problem.
    """
    begun = ended = False
    for step in answer:
        if ended:
            raise ValueError(f"step {step} comes after the end of the answer; remove it")
        if isinstance(step, Begin | Respond) and begun:
            raise ValueError(f"step {step} begins a second response; expected one response per request")
        if isinstance(step, Send) and not begun:
            raise ValueError(f"the answer sends {len(step.data)} bytes before its response; add a Begin before it")
        begun = begun or isinstance(step, Begin)
        ended = isinstance(step, Respond | Stall | Cut | Reset)
    if not begun and not ended:
        raise ValueError(f"the answer {answer} has no response; end it with a Respond, a Stall, a Cut or a Reset")


def respond(
    status: int = 200, body: Mapping[str, Any] | bytes = b"", headers: Mapping[str, str] | None = None
) -> Answer:
    """A complete response; a mapping is sent as JSON. `headers` take precedence over those implied by the body."""
    if isinstance(body, bytes):
        return (Respond(status, headers or {}, body),)
    return (Respond(status, {**_JSON, **(headers or {})}, json.dumps(body).encode()),)


def kube_status(code: int, reason: str, message: str = "scripted", *, retry_after: int | None = None) -> Answer:
    """An error response of the API server; `retry_after` seconds go into both the header and the details."""
    if retry_after is None:
        return respond(code, status_object(code, reason, message))
    status = status_object(code, reason, message, retryAfterSeconds=retry_after)
    return respond(code, status, {"Retry-After": str(retry_after)})


def html_page(status: int = 502, title: str = "Bad Gateway") -> Answer:
    """The HTML error page of a load balancer in front of the API server."""
    return respond(status, _PAGE.format(title).encode(), _HTML)


def watch_stream(*parts: WatchEvent | bytes | Step) -> Answer:
    """A response to a watch: an event is sent as one line in its own chunk, bytes as a chunk; a step is executed."""
    return (Begin(200, _JSON), *(_step(part) for part in parts))


def _step(part: WatchEvent | bytes | Step) -> Step:
    if isinstance(part, bytes):
        return Send(part)
    return Send(line_of(part)) if isinstance(part, Mapping) else part
