"""What a scripted server does with a request: an answer is a tuple of steps, played one after the other.

Answers can be joined: `(Hold(), *respond(200, {}))` answers late, `(Reset(),)` not at all. A response that was begun
and not broken off ends cleanly after the last step.
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
    """A whole response, its length declared."""

    status: int
    headers: Mapping[str, str] = field(factory=dict)
    body: bytes = b""


@frozen
class Begin:
    """The head of a response whose body has no declared length."""

    status: int
    headers: Mapping[str, str] = field(factory=dict)


@frozen
class Send:
    """One chunk of the body of a response that was begun.

    Chunks that are sent in a row may reach a client together. A `Hold` between them keeps them apart.
    """

    data: bytes


@frozen
class Hold:
    """Go on once `ScriptedServer.release(gate)` has been called, before or after this step was reached."""

    gate: str = "gate"


@frozen
class Stall:
    """Keep the connection open and do nothing for as long as the client stays."""


@frozen
class Cut:
    """Close the connection in the middle of the response, or without any: what was sent arrives."""


@frozen
class Reset:
    """Reset the TCP connection: the client gets an error, and may lose what it had not read."""


Step = Respond | Begin | Send | Hold | Stall | Cut | Reset
Answer = tuple[Step, ...]


def check_answer(answer: Answer) -> None:
    """Refuse what cannot be played: a body without a head, a second head, steps after the end, no response at all.

    Raises:
        ValueError: names the step and what is wrong with it.
    """
    begun = ended = False
    for step in answer:
        if ended:
            raise ValueError(f"the answer has ended before its step {step}; leave it out")
        if isinstance(step, Begin | Respond) and begun:
            raise ValueError(f"the answer has a second response, {step}; a request has one")
        if isinstance(step, Send) and not begun:
            raise ValueError(f"the answer sends {len(step.data)} bytes before its response; put a Begin before")
        begun = begun or isinstance(step, Begin)
        ended = isinstance(step, Respond | Stall | Cut | Reset)
    if not begun and not ended:
        raise ValueError(f"the answer {answer} gives no response; put a Respond, a Stall, a Cut or a Reset at its end")


def respond(
    status: int = 200, body: Mapping[str, Any] | bytes = b"", headers: Mapping[str, str] | None = None
) -> Answer:
    """A whole response; a mapping is sent as JSON. `headers` win over those that follow from the body."""
    if isinstance(body, bytes):
        return (Respond(status, headers or {}, body),)
    return (Respond(status, {**_JSON, **(headers or {})}, json.dumps(body).encode()),)


def kube_status(code: int, reason: str, message: str = "scripted", *, retry_after: int | None = None) -> Answer:
    """An error as the API server reports it; `retry_after` seconds go into the header and the details."""
    if retry_after is None:
        return respond(code, status_object(code, reason, message))
    status = status_object(code, reason, message, retryAfterSeconds=retry_after)
    return respond(code, status, {"Retry-After": str(retry_after)})


def html_page(status: int = 502, title: str = "Bad Gateway") -> Answer:
    """What a load balancer says in place of the API server."""
    return respond(status, _PAGE.format(title).encode(), _HTML)


def watch_stream(*parts: WatchEvent | bytes | Step) -> Answer:
    """A response to a watch: an event is sent as a line in a chunk of its own, bytes as a chunk, a step is played."""
    return (Begin(200, _JSON), *(_step(part) for part in parts))


def _step(part: WatchEvent | bytes | Step) -> Step:
    if isinstance(part, bytes):
        return Send(part)
    return Send(line_of(part)) if isinstance(part, Mapping) else part
