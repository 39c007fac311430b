"""The two contracts between sidecar and framework: how a run becomes a request, and a response its outcome. Pure.

| response | envelope | raw |
|---|---|---|
| 2xx with a valid envelope | succeeded, or failed by its `error` or a `statusCode` of 500 or more | succeeded |
| 5xx | failed | failed; status, headers and body are kept |
| 1xx to 4xx otherwise | failed: the framework did not take the request | succeeded with that status: it is an answer |
| no valid envelope | failed | |
| `Serverless-Not-Started: true` beside an error | not started | not started |
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from attrs import field, frozen

from gpuruntime.dispatch.protocol import Run
from gpuruntime.dispatch.sidecar.outcomes import Outcome

__all__ = ["HOP_BY_HOP", "Contract", "FrameworkReply", "FrameworkRequest", "end_to_end"]

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
        "content-length",
    }
)
"""Headers of one connection or one message, in lower case: they are never passed on."""


@frozen
class FrameworkRequest:
    """A POST request for the framework."""

    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@frozen
class FrameworkReply:
    """A response of the framework. Names of headers are as they were sent."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes = field(repr=False)

    def header(self, name: str) -> str:
        """The value of a header, or an empty text."""
        return next((value for found, value in self.headers if found.lower() == name.lower()), "")


class Contract(Protocol):
    """How the sidecar talks to the framework."""

    def request(self, run: Run, payload: bytes, remaining_millis: int | None) -> FrameworkRequest:
        """The request of a run; without a deadline nothing is remaining."""

    def outcome(self, reply: FrameworkReply) -> Outcome:
        """How the run ended."""

    def most_bytes(self, run: Run) -> int:
        """Most bytes of a response that can still hold a result within the limit of the run."""


def end_to_end(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The headers that may be passed on. Values of repeated ones are joined by commas."""
    named = {name.strip().lower() for key, value in headers if key.lower() == "connection" for name in value.split(",")}
    passed: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for name, value in headers:
        lower = name.lower()
        if lower in HOP_BY_HOP or lower in named:
            continue
        first = spelled.setdefault(lower, name)
        passed[first] = f"{passed[first]}, {value}" if first in passed else value
    return passed
