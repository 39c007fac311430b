"""The writes of one user, counted in the audit log of the API server."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

from gpuruntime.testing.cluster.audit import WRITE_VERBS, Request

__all__ = ["UserLog", "count_writes"]

_ANSWERED = b'"stage":"ResponseComplete"'


@frozen
class UserLog:
    """The completed requests of one user. Requests in progress are not seen, so read it while the user is idle.

    The log of a thousand units has tens of megabytes, so only the lines of the user are parsed.
    """

    path: Path
    user: str

    def position(self) -> int:
        """The current size of the log."""
        return self.path.stat().st_size if self.path.exists() else 0

    def between(self, start: int, end: int) -> Iterator[Request]:
        """The requests between two positions of the log."""
        user = json.dumps(self.user).encode()
        with self.path.open("rb") as log:
            log.seek(start)
            for line in log:
                start += len(line)
                if start > end:
                    return
                if user in line and _ANSWERED in line:
                    yield Request.parse(json.loads(line))


def count_writes(requests: Iterable[Request]) -> Mapping[str, float]:
    """The number of writes among requests: all, statuses, events, and refused ones."""
    tried = [request for request in requests if request.verb in WRITE_VERBS]
    written = [request for request in tried if request.is_write]
    kinds = Counter("status" if request.subresource == "status" else request.resource for request in written)
    return {
        "writes": len(written),
        "status_writes": kinds["status"],
        "event_writes": kinds["events"],
        "refused_writes": len(tried) - len(written),
    }
