"""Publishing to streams: one message, or an atomic batch (ADR-50 of NATS)."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from gpuruntime.bus.errors import (
    BatchRefusedError,
    BusError,
    BusUnavailableError,
    StorageFullError,
    StreamMissingError,
    refusal,
)
from gpuruntime.bus.headers import Headers
from gpuruntime.bus.messages import Message, OutgoingMessage, PublishAck

__all__ = ["MOST_IN_A_BATCH", "batch_frames", "batch_refusal", "publish_headers", "read_publish_ack"]

MOST_IN_A_BATCH: Final = 1000
"""The most messages that the server takes as one batch."""
_NO_RESPONDERS: Final = 503


def publish_headers(
    headers: Headers | None,
    message_id: str | None = None,
    expect_last_subject_sequence: int | None = None,
    ttl: float | None = None,
) -> Headers | None:
    """The headers of a publish, with what the server does with it."""
    if message_id is None and expect_last_subject_sequence is None and ttl is None:
        return headers
    found = dict(headers) if headers else {}
    if message_id is not None:
        found["Nats-Msg-Id"] = message_id
    if expect_last_subject_sequence is not None:
        found["Nats-Expected-Last-Subject-Sequence"] = str(expect_last_subject_sequence)
    if ttl is not None:
        found["Nats-TTL"] = str(max(1, math.ceil(ttl)))  # the server counts whole seconds
    return found


def read_publish_ack(answer: Message, subject: str) -> PublishAck:
    """The acknowledgement.

    Raises:
        StreamMissingError: no stream takes the subject.
        BusError: the server refused: see `refusal`.
    """
    if answer.status == _NO_RESPONDERS:
        raise StreamMissingError(f"publish to {subject}: no stream takes this subject")
    try:
        document: Any = orjson.loads(answer.body)
        error = document.get("error")
        if error is None:
            return PublishAck(document["stream"], document["seq"], document.get("duplicate", False))
    except (ValueError, KeyError, AttributeError) as failure:
        raise BusUnavailableError(
            f"publish to {subject}: expected the answer of a stream, got another one"
        ) from failure
    raise refusal(error, f"publish to {subject}")


def batch_frames(messages: Sequence[OutgoingMessage], batch_id: str) -> Iterator[tuple[OutgoingMessage, Headers]]:
    """Each message with its headers; the last one commits.

    Raises:
        ValueError: there are no messages, or too many.
    """
    if not 1 <= len(messages) <= MOST_IN_A_BATCH:
        raise ValueError(f"expected a batch of 1 to {MOST_IN_A_BATCH} messages, got {len(messages)}")
    for number, message in enumerate(messages, start=1):
        headers = dict(
            publish_headers(message.headers, message.message_id, message.expect_last_subject_sequence, message.ttl)
            or {}
        )
        headers["Nats-Batch-Id"] = batch_id
        headers["Nats-Batch-Sequence"] = str(number)
        if number == len(messages):
            headers["Nats-Batch-Commit"] = "1"
        yield message, headers


def batch_refusal(error: BusError, count: int) -> BusError:
    """The error of a batch: the refusal of one message refuses all, and is the cause of a BatchRefusedError."""
    if isinstance(error, BatchRefusedError | StorageFullError | StreamMissingError | BusUnavailableError):
        return error
    refused = BatchRefusedError(f"batch of {count}: {error}")
    refused.code = error.code
    refused.__cause__ = error
    return refused
