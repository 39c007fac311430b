"""What a function sees beside its payload: the id, the attempt, the time that is left, cancellation, a log."""

import logging
import math
import threading
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

__all__ = ["Context", "Invocation"]

_LOG = logging.getLogger("gpuruntime.function")


@dataclass(frozen=True)
class Invocation:
    """One invocation as it arrived. `remaining` is in seconds from now on, infinite where there is no deadline."""

    id: str
    function: str = ""
    mode: str = "async"
    attempt: int = 1
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    payload: Any = None
    remaining: float = math.inf


if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    # It cannot be subscripted in Python 3.10, which many images have.
    _Adapter = logging.LoggerAdapter


class _InvocationLog(_Adapter):
    """Puts the id of the invocation before the message, and into the record as `invocation`."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        invocation = (self.extra or {}).get("invocation")
        kwargs["extra"] = {**(kwargs.get("extra") or {}), "invocation": invocation}
        return f"[{invocation}] {msg}", kwargs


class Context:
    """The second argument of a function: about this run of it.

    Guarantees:
        `attempt` is 1 for the first run of an invocation; a later attempt means that an earlier one may have done its
        work. `cancelled` turns true at most once, and stays so. Everything may be used from any thread.
    """

    def __init__(self, invocation: Invocation, state: Any = None) -> None:
        self.id = invocation.id
        self.function = invocation.function
        self.attempt = invocation.attempt
        self.mode = invocation.mode
        self.content_type = invocation.content_type
        self.headers = invocation.headers
        self.attributes = invocation.attributes
        self.state = state
        """What `setup` returned."""
        self.cancel_event = threading.Event()
        """Set when the caller cancels, the deadline passes, or the connection is lost; for code that waits."""
        self.log: logging.LoggerAdapter[logging.Logger] = _InvocationLog(_LOG, {"invocation": invocation.id})
        self._deadline = time.monotonic() + invocation.remaining

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer wanted. A sync function looks at it between steps, and returns."""
        return self.cancel_event.is_set()

    @property
    def remaining_seconds(self) -> float:
        """The seconds until the deadline, at least 0; infinite without a deadline."""
        return max(0.0, self._deadline - time.monotonic())
