"""The NATS wire: the connection, and the part of JetStream that the product uses, typed. It does not know functions.

::

    connection      Bus: one connection that reconnects for ever; core publish, request, subscribe; acknowledgements
    jetstream       JetStream: publish, atomic batches, reads from the leader, purge, streams, consumers
    pulls           Pull: deliveries by credit
    wire            the client library nats-py, which only this module imports, and only when a bus runs
    errors          what can go wrong, by what a caller can do about it

Import from here.
"""

from gpuruntime.bus.connection import Bus, ExpectedReply
from gpuruntime.bus.credentials import BusCredentials
from gpuruntime.bus.errors import (
    BatchRefusedError,
    BusError,
    BusPermissionError,
    BusTimeoutError,
    BusUnavailableError,
    ConsumerGoneError,
    JetStreamRefusedError,
    MessageTooLargeError,
    NoRespondersError,
    OutcomeUnknownError,
    QueueFullError,
    StorageFullError,
    StreamMissingError,
    SubjectTakenError,
)
from gpuruntime.bus.headers import Headers
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.messages import Delivery, Message, OutgoingMessage, PublishAck, StoredMessage, delivery_of
from gpuruntime.bus.options import BusOptions, BusTls
from gpuruntime.bus.publishing import MOST_IN_A_BATCH
from gpuruntime.bus.pulls import Pull
from gpuruntime.bus.streams import AccountInfo, ConsumerConfig, ConsumerInfo, StreamConfig, StreamInfo
from gpuruntime.bus.subscriptions import Listener, Subscription

__all__ = [
    "MOST_IN_A_BATCH",
    "AccountInfo",
    "BatchRefusedError",
    "Bus",
    "BusCredentials",
    "BusError",
    "BusOptions",
    "BusPermissionError",
    "BusTimeoutError",
    "BusTls",
    "BusUnavailableError",
    "ConsumerConfig",
    "ConsumerGoneError",
    "ConsumerInfo",
    "Delivery",
    "ExpectedReply",
    "Headers",
    "JetStream",
    "JetStreamRefusedError",
    "Listener",
    "Message",
    "MessageTooLargeError",
    "NoRespondersError",
    "OutcomeUnknownError",
    "OutgoingMessage",
    "PublishAck",
    "Pull",
    "QueueFullError",
    "StorageFullError",
    "StoredMessage",
    "StreamConfig",
    "StreamInfo",
    "StreamMissingError",
    "SubjectTakenError",
    "Subscription",
    "delivery_of",
]
