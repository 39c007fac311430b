"""What comes from the bus and what goes to it, as values."""

from datetime import UTC, datetime
from typing import Final

from attrs import frozen

from gpuruntime.bus.headers import NO_HEADERS, Headers

__all__ = ["Delivery", "Message", "OutgoingMessage", "PublishAck", "StoredMessage", "delivery_of"]

_ACK_PREFIX: Final = ("$JS", "ACK")
_SHORT: Final = 9
_NANOSECONDS: Final = 1_000_000_000


@frozen
class Message:
    """A message of a subscription, or the answer to a request.

    `reply` is the subject to answer to; "" if there is none.
    `status` is 0 except for messages of the server itself, such as 503: nothing subscribes.
    """

    subject: str
    body: bytes
    headers: Headers = NO_HEADERS
    reply: str = ""
    status: int = 0
    description: str = ""


@frozen
class OutgoingMessage:
    """A message of a batch."""

    subject: str
    body: bytes = b""
    headers: Headers = NO_HEADERS
    message_id: str | None = None
    expect_last_subject_sequence: int | None = None
    ttl: float | None = None


@frozen
class PublishAck:
    """A stored message. `duplicate`: its message id is that of an earlier one, whose sequence this is."""

    stream: str
    sequence: int
    duplicate: bool = False


@frozen
class StoredMessage:
    """A message of a stream. `time` is when the server stored it."""

    subject: str
    sequence: int
    body: bytes
    headers: Headers
    time: datetime


@frozen
class Delivery:
    """A message that a consumer delivered; it comes again unless it is acknowledged in time.

    The `ack_subject` works from any connection, and names the message, not this delivery: a late acknowledgement ends
    what another process works on. `time` is when the message was stored.

    `delivery_count` is what the server remembers. It writes that down some milliseconds later: what it delivered in the
    last moments before it was killed comes again as a first delivery (seen up to 50 ms before).
    """

    subject: str
    body: bytes
    headers: Headers
    ack_subject: str
    stream: str
    consumer: str
    delivery_count: int
    stream_sequence: int
    consumer_sequence: int
    pending: int
    time: datetime


def delivery_of(subject: str, body: bytes, headers: Headers, ack_subject: str) -> Delivery | None:
    """The delivery with this ack subject; None if it is not one of JetStream.

    It is `$JS.ACK.STREAM.CONSUMER.DELIVERIES.SEQUENCE.CONSUMER_SEQUENCE.NANOSECONDS.PENDING`, with the domain and a
    hash of the account before the stream where the server has a domain.
    """
    tokens = ack_subject.split(".")
    if tuple(tokens[:2]) != _ACK_PREFIX or len(tokens) < _SHORT:
        return None
    start = 2 if len(tokens) == _SHORT else 4
    stream, consumer, count, sequence, consumer_sequence, nanoseconds, pending = tokens[start : start + 7]
    seconds, rest = divmod(int(nanoseconds), _NANOSECONDS)
    return Delivery(
        subject=subject,
        body=body,
        headers=headers,
        ack_subject=ack_subject,
        stream=stream,
        consumer=consumer,
        delivery_count=int(count),
        stream_sequence=int(sequence),
        consumer_sequence=int(consumer_sequence),
        pending=int(pending),
        time=datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000),
    )
