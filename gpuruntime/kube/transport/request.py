"""One request to an API server, as a value: a client makes it, middleware passes it on, a transport sends it."""

from collections.abc import Mapping, Sequence
from typing import Final

import orjson
from attrs import field, frozen

from gpuruntime.kube.transport.guarded_socket import Guard

__all__ = ["Params", "Request"]

Params = Mapping[str, str] | Sequence[tuple[str, str]]

_JSON: Final = "application/json"
_READS: Final = frozenset({"GET", "HEAD"})


@frozen
class Request:
    """What to send, and how long to wait for the response.

    `timeout` is in seconds. It covers all retries and the waits between them; of a stream, the time until it is open.
    A `guard` raises NotSentError if nothing may be sent now. It is called in the same step in which bytes of the
    request are handed to the kernel; see `GuardedSocket`.
    """

    method: str
    path: str
    params: Params = ()
    body: bytes | None = field(default=None, repr=False)
    content_type: str = _JSON
    accept: str = _JSON
    timeout: float = 30.0
    guard: Guard | None = field(default=None, repr=False)

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing on the server."""
        return self.method in _READS

    @property
    def is_dry_run(self) -> bool:
        """Whether it is a write that the server is asked to validate and not to store."""
        if self.method != "DELETE" or not self.body:
            return bool(dict(self.params).get("dryRun"))
        # The server ignores the options in the query of a DELETE that has a body.
        try:
            options = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return False
        return isinstance(options, dict) and bool(options.get("dryRun"))

    def guarded(self, guard: Guard, timeout: float) -> "Request":
        """The same request with a guard, and with this timeout if it is shorter."""
        # Every write of a leader comes through here, and evolve() costs three times as much.
        return Request(
            self.method,
            self.path,
            self.params,
            self.body,
            self.content_type,
            self.accept,
            min(self.timeout, timeout),
            guard,
        )

    def __str__(self) -> str:
        return f"{self.method} {self.path}"
