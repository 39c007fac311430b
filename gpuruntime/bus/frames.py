"""Frames of the protocol between client and server, and what takes the messages of a connection."""

import re
from collections.abc import Callable
from typing import Final

__all__ = ["Handler", "publish_frame", "subscribe_frame", "unsubscribe_frame"]

Handler = Callable[[bytes, bytes, bytes, bytes | None], None]
"""Takes subject, reply, body and the block of headers of a message. It must not block."""

_LONGEST_LINE: Final = 4096
_SPACES: Final = re.compile(r"[\s\0]")


def publish_frame(subject: str, reply: str, headers: bytes, body: bytes) -> bytes:
    """The frame of a message. `headers` is a block, or empty.

    Raises:
        ValueError: a subject is empty, has spaces, or is too long.
    """
    line = f"{subject} {reply}" if reply else subject
    if not subject or _SPACES.search(subject) or (reply and _SPACES.search(reply)) or len(line) > _LONGEST_LINE - 32:
        raise ValueError(f"expected a subject without spaces, of less than {_LONGEST_LINE} characters, got {line!r}")
    if headers:
        size = len(headers)
        return b"".join((f"HPUB {line} {size} {size + len(body)}\r\n".encode(), headers, body, b"\r\n"))
    return b"".join((f"PUB {line} {len(body)}\r\n".encode(), body, b"\r\n"))


def subscribe_frame(subject: str, queue: str, sid: int) -> bytes:
    """The frame of a subscription.

    Raises:
        ValueError: the subject is empty, or one of both has spaces.
    """
    if not subject or _SPACES.search(subject) or _SPACES.search(queue):
        raise ValueError(f"expected a subject and a queue without spaces, got {subject!r} and {queue!r}")
    return f"SUB {subject} {queue} {sid}\r\n".encode() if queue else f"SUB {subject} {sid}\r\n".encode()


def unsubscribe_frame(sid: int) -> bytes:
    return f"UNSUB {sid}\r\n".encode()
