"""`gpuruntime runtime-api` with one difference: an invocation is acknowledged without being published.

All else is the product: routes, access control, audit, the look at the storage and at the queue. So it shows what the
publish costs over HTTP, and nothing but that.
"""

import itertools
import sys
from typing import Any
from unittest.mock import patch

from gpuruntime.bus import OutgoingMessage, PublishAck
from gpuruntime.processes.command import main
from gpuruntime.service.invocations import use_cases
from gpuruntime.service.invocations.group_commit import GroupCommit

__all__ = ["Unwritten"]


class Unwritten(GroupCommit):
    """Acknowledges every message, and stores none."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sequences = itertools.count(1)

    async def publish(self, stream: str, _message: OutgoingMessage) -> PublishAck:
        """The acknowledgement of a message that is not stored."""
        return PublishAck(stream, next(self._sequences))


if __name__ == "__main__":
    with patch.object(use_cases, "GroupCommit", Unwritten):
        sys.exit(main())
