"""What a sidecar sends."""

from collections.abc import Mapping
from typing import Annotated, Final, cast

from attrs import frozen

from gpuruntime.dispatch.protocol.frames import PROTOCOL_VERSION, Frame, decode_frame
from gpuruntime.meta import EMPTY, FrozenDict, Range, Struct

__all__ = ["Draining", "Heartbeat", "HeldLease", "Hello", "Release", "RunResult", "WorkerFrame", "decode_from_worker"]

_Count = Annotated[int, Range(minimum=0, maximum=2**53)]


@frozen
class HeldLease(Struct):
    """A run that the sidecar has: in progress, or ended and not yet committed."""

    lease: str
    id: str
    attempt: _Count


@frozen
class Hello(Frame):
    """The first frame of a connection."""

    TYPE = "hello"

    slots: _Count
    """How many runs the worker takes at a time, those of `leases` included."""
    revision: str = ""
    """The revision of the function that the worker runs."""
    draining: bool = False
    """Whether the worker takes no further runs."""
    leases: tuple[HeldLease, ...] = ()
    version: int = PROTOCOL_VERSION


@frozen
class Heartbeat(Frame):
    """The worker lives, and has these leases. Sent every `Welcome.heartbeat_millis`."""

    TYPE = "heartbeat"

    leases: tuple[str, ...] = ()


@frozen
class RunResult(Frame):
    """How a run ended. The body is what the function returned."""

    TYPE = "result"

    lease: str
    id: str
    attempt: _Count
    state: str
    """succeeded, failed, expired or cancelled: the sidecar decides no other."""
    failure_class: str = ""
    error: str = ""
    status_code: _Count = 0
    content_type: str = ""
    headers: FrozenDict[str, str] = EMPTY
    execution_millis: _Count = 0


@frozen
class Release(Frame):
    """The run of a lease was not started, and another worker may have it."""

    TYPE = "release"

    lease: str
    id: str


@frozen
class Draining(Frame):
    """The worker ends: it finishes what it runs, and takes nothing more."""

    TYPE = "draining"


WorkerFrame = Hello | Heartbeat | RunResult | Release | Draining
_TYPES: Final[Mapping[str, type[Frame]]] = {cls.TYPE: cls for cls in (Hello, Heartbeat, RunResult, Release, Draining)}


def decode_from_worker(data: bytes) -> tuple[WorkerFrame, bytes]:
    """A frame of a sidecar, and its body.

    Raises:
        ProtocolError: it is none.
    """
    frame, body = decode_frame(data, _TYPES)
    return cast("WorkerFrame", frame), body
