"""What one user has written, counted in the API server's audit log."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

from gpuruntime.testing.cluster.audit import WRITE_VERBS, Request

__all__ = ["UserLog", "counted"]

_ANSWERED = b'"stage":"ResponseComplete"'


@frozen
class UserLog:
    """The answered requests of one user, who must be at rest when they are read: one under way is not seen.

    The log of a thousand units has tens of megabytes, so that only the lines of the user are parsed.
    """

    path: Path
    user: str

    def position(self) -> int:
        """Where the log ends now."""
        return self.path.stat().st_size if self.path.exists() else 0

    def between(self, start: int, end: int) -> Iterator[Request]:
        """The requests of which the log tells between two positions."""
        user = json.dumps(self.user).encode()
        with self.path.open("rb") as log:
            log.seek(start)
            for line in log:
                start += len(line)
                if start > end:
                    return
                if user in line and _ANSWERED in line:
                    yield Request.parse(json.loads(line))


def counted(requests: Iterable[Request]) -> Mapping[str, float]:
    """How many of the requests are writes: all in all, statuses, events, and such as the server refused."""
    tried = [request for request in requests if request.verb in WRITE_VERBS]
    written = [request for request in tried if request.is_write]
    kinds = Counter("status" if request.subresource == "status" else request.resource for request in written)
    return {
        "writes": len(written),
        "status_writes": kinds["status"],
        "event_writes": kinds["events"],
        "refused_writes": len(tried) - len(written),
    }
