"""The API server's audit log: every request, by user and resource, without gaps."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from attrs import field, frozen

__all__ = ["AuditLog", "Recording", "Request"]

WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_TIMEOUT_SECONDS = 30.0


@frozen
class Request:
    """A request that the API server has answered. `received` is when it arrived by the server's clock (RFC 3339)."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    code: int
    user_agent: str
    group: str = ""
    received: str = ""
    is_dry_run: bool = False

    @classmethod
    def parse(cls, line: dict[str, Any]) -> Self:
        target = line.get("objectRef", {})
        return cls(
            verb=line["verb"],
            resource=target.get("resource", ""),
            subresource=target.get("subresource", ""),
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            user=line["user"].get("username", ""),
            code=line.get("responseStatus", {}).get("code", 0),
            user_agent=line.get("userAgent", ""),
            group=target.get("apiGroup", ""),
            received=line.get("requestReceivedTimestamp", ""),
            is_dry_run="dryRun" in parse_qs(urlsplit(line.get("requestURI", "")).query),
        )

    @property
    def is_write(self) -> bool:
        """Whether it changed the cluster: a write that the server accepted, and no dry run."""
        return self.verb in WRITE_VERBS and self.code < 400 and not self.is_dry_run


@frozen
class Recording:
    """The requests of one period; complete once its `with` block has ended."""

    requests: list[Request] = field(factory=list)

    def writes(self, *, namespace: str | None = None, user: str | None = None) -> list[Request]:
        """The accepted writes, optionally of one namespace or one user only."""
        return [
            request
            for request in self.requests
            if request.is_write
            and (namespace is None or request.namespace == namespace)
            and (user is None or request.user == user)
        ]


@frozen
class AuditLog:
    """Reads the audit log of a cluster that was started with `audit=True`."""

    path: Path

    @contextmanager
    def recording(self) -> Iterator[Recording]:
        """Record the requests that the API server receives inside the block.

        Every request whose response a client has received inside the block is in the recording, because its first
        audit line is written before it is handled. Leaving the block waits for requests in flight, except watches.
        """
        recording = Recording()
        start = self.path.stat().st_size if self.path.exists() else 0
        yield recording
        recording.requests.extend(self._answered(start))

    def _answered(self, start: int) -> list[Request]:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        lines, position = _lines(self.path, start)
        received = {line["auditID"] for line in lines if line["stage"] == "RequestReceived"}
        answers: dict[str, dict[str, Any]] = {}
        while True:
            for line in lines:
                if line["auditID"] in received and line["stage"] != "RequestReceived":
                    answers[line["auditID"]] = line
            missing = received - answers.keys()
            if not missing:
                return [Request.parse(line) for line in answers.values()]
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(missing)} requests were not answered within {_TIMEOUT_SECONDS:.0f} s")
            time.sleep(0.02)  # a file has no event to await
            lines, position = _lines(self.path, position)


def _lines(path: Path, start: int) -> tuple[list[dict[str, Any]], int]:
    """The lines that begin at a position or later, and where the next one will begin."""
    with path.open("rb") as log:
        log.seek(max(start - 1, 0))
        content = log.read()
    # A line that was incomplete at the start belongs to an earlier request.
    first = content.find(b"\n") + 1 if start else 0
    # The last line may be incomplete; a later read returns it.
    end = content.rfind(b"\n") + 1
    return [json.loads(line) for line in content[first:end].splitlines()], max(start - 1, 0) + end
