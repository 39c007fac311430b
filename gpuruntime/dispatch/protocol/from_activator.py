"""What an activator sends."""

from collections.abc import Mapping
from typing import Annotated, Final, cast

from attrs import frozen

from gpuruntime.dispatch.protocol.frames import Frame, decode_frame
from gpuruntime.meta import EMPTY, FrozenDict, Range

__all__ = [
    "ActivatorFrame",
    "Cancel",
    "Committed",
    "Confirmed",
    "Drain",
    "Run",
    "Welcome",
    "decode_from_activator",
]

_Count = Annotated[int, Range(minimum=0, maximum=2**53)]


@frozen
class Welcome(Frame):
    """The answer to `Hello`: the activator has the worker's leases, and sends runs from now on."""

    TYPE = "welcome"

    activator: str
    """The name of the activator, for logs."""
    heartbeat_millis: _Count
    lost_leases: tuple[str, ...] = ()
    """Leases of `Hello` that are not valid: the worker ends their runs and forgets them."""


@frozen
class Run(Frame):
    """Run an invocation. The body is the payload."""

    TYPE = "run"

    lease: str
    id: str
    attempt: _Count
    timeout_millis: _Count
    """How long the run may take, counted from the arrival of this frame. 0 means no limit."""
    mode: str = ""
    content_type: str = ""
    headers: FrozenDict[str, str] = EMPTY
    attributes: FrozenDict[str, str] = EMPTY
    traceparent: str = ""
    abort_on_lost_lease: bool = False
    """Whether the worker cancels the run if its lease is not confirmed for 15 seconds."""
    max_result_bytes: _Count = 0
    """A larger result is replaced by the failure result_too_large. 0 means no limit."""


@frozen
class Confirmed(Frame):
    """These leases were extended just now; those of `lost` belong to another worker, or have ended."""

    TYPE = "confirmed"

    leases: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@frozen
class Cancel(Frame):
    """End a run. The worker sends its result as ever, with the state cancelled unless it ended before."""

    TYPE = "cancel"

    lease: str
    id: str
    reason: str = ""


@frozen
class Committed(Frame):
    """The result is stored, or another one was: the worker forgets lease and result, and its slot is free."""

    TYPE = "committed"

    lease: str
    id: str
    won: bool = True
    """False if the invocation had ended otherwise before: the result was dropped."""


@frozen
class Drain(Frame):
    """The activator stops. The worker connects to another one, with its leases."""

    TYPE = "drain"


ActivatorFrame = Welcome | Run | Confirmed | Cancel | Committed | Drain
_TYPES: Final[Mapping[str, type[Frame]]] = {
    cls.TYPE: cls for cls in (Welcome, Run, Confirmed, Cancel, Committed, Drain)
}


def decode_from_activator(data: bytes) -> tuple[ActivatorFrame, bytes]:
    """A frame of an activator, and its body.

    Raises:
        ProtocolError: it is none.
    """
    frame, body = decode_frame(data, _TYPES)
    return cast("ActivatorFrame", frame), body
