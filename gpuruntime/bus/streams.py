"""The configurations of streams and consumers, and what the server says of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

from attrs import field, frozen

from gpuruntime.bus.times import read_time

__all__ = ["AccountInfo", "ConsumerConfig", "ConsumerInfo", "StreamConfig", "StreamInfo", "differing_keys"]

_NANOSECONDS: Final = 1_000_000_000


@frozen(kw_only=True)
class StreamConfig:
    """A stream. Numbers of -1 are no limit; times are in seconds, and 0 is no limit."""

    name: str
    subjects: tuple[str, ...]
    description: str = ""
    retention: Literal["limits", "workqueue", "interest"] = "limits"
    storage: Literal["file", "memory"] = "file"
    replicas: int = 1
    discard: Literal["old", "new"] = "old"
    discard_new_per_subject: bool = False
    max_messages: int = -1
    max_messages_per_subject: int = -1
    max_bytes: int = -1
    max_message_size: int = -1
    max_age: float = 0.0
    duplicate_window: float = 120.0
    allow_direct: bool = False
    allow_atomic: bool = False
    allow_message_ttl: bool = False
    metadata: Mapping[str, str] = field(factory=dict)

    def document(self) -> dict[str, Any]:
        """The configuration as the server reads it."""
        return {
            "name": self.name,
            "description": self.description,
            "subjects": list(self.subjects),
            "retention": self.retention,
            "storage": self.storage,
            "num_replicas": self.replicas,
            "discard": self.discard,
            "discard_new_per_subject": self.discard_new_per_subject,
            "max_msgs": self.max_messages,
            "max_msgs_per_subject": self.max_messages_per_subject,
            "max_bytes": self.max_bytes,
            "max_msg_size": self.max_message_size,
            "max_age": round(self.max_age * _NANOSECONDS),
            "duplicate_window": round(self.duplicate_window * _NANOSECONDS),
            "max_consumers": -1,
            "allow_direct": self.allow_direct,
            "allow_atomic": self.allow_atomic,
            "allow_msg_ttl": self.allow_message_ttl,
            "metadata": dict(self.metadata),
        }


@frozen(kw_only=True)
class ConsumerConfig:
    """A durable pull consumer with explicit acknowledgements. `max_deliver` and `max_ack_pending` of -1 are no limit.

    There is no `backoff`, on purpose: with one, the server ignores `ack_wait`.
    """

    name: str
    description: str = ""
    filter_subject: str = ""
    ack_wait: float = 30.0
    max_deliver: int = -1
    max_ack_pending: int = -1
    max_waiting: int = 512
    deliver: Literal["all", "new", "last"] = "all"
    metadata: Mapping[str, str] = field(factory=dict)

    def document(self) -> dict[str, Any]:
        """The configuration as the server reads it."""
        return {
            "name": self.name,
            "durable_name": self.name,
            "description": self.description,
            "filter_subject": self.filter_subject,
            "ack_policy": "explicit",
            "ack_wait": round(self.ack_wait * _NANOSECONDS),
            "max_deliver": self.max_deliver,
            "max_ack_pending": self.max_ack_pending,
            "max_waiting": self.max_waiting,
            "deliver_policy": self.deliver,
            "replay_policy": "instant",
            "metadata": dict(self.metadata),
        }


@frozen
class StreamInfo:
    """A stream as its leader sees it. `subjects` has the number of messages a subject, if they were asked for.

    `server_time` is the server's clock at the answer: the age of a message is measured against it, never against ours.
    """

    name: str
    messages: int
    bytes: int
    first_sequence: int
    last_sequence: int
    consumers: int
    config: Mapping[str, Any]
    subjects: Mapping[str, int]
    first_time: datetime | None
    server_time: datetime

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "StreamInfo":
        state = document["state"]
        return cls(
            name=document["config"]["name"],
            messages=state["messages"],
            bytes=state["bytes"],
            first_sequence=state["first_seq"],
            last_sequence=state["last_seq"],
            consumers=state.get("consumer_count", 0),
            config=document["config"],
            subjects=state.get("subjects") or {},
            first_time=read_time(state["first_ts"]) if state["messages"] else None,
            server_time=read_time(document["ts"]),
        )


@frozen
class ConsumerInfo:
    """A consumer as its leader sees it: what waits, and what is delivered and not acknowledged.

    `server_time` is the server's clock at the answer: the age of a message is measured against it, never against ours.
    """

    stream: str
    name: str
    num_pending: int
    num_ack_pending: int
    num_redelivered: int
    num_waiting: int
    delivered_sequence: int
    ack_floor: int
    config: Mapping[str, Any]
    server_time: datetime

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "ConsumerInfo":
        return cls(
            stream=document["stream_name"],
            name=document["name"],
            num_pending=document["num_pending"],
            num_ack_pending=document["num_ack_pending"],
            num_redelivered=document["num_redelivered"],
            num_waiting=document["num_waiting"],
            delivered_sequence=document["delivered"]["stream_seq"],
            ack_floor=document["ack_floor"]["stream_seq"],
            config=document["config"],
            server_time=read_time(document["ts"]),
        )


@frozen
class AccountInfo:
    """The storage that the account uses, and its limit in bytes; -1 is no limit of its own."""

    storage: int
    max_storage: int
    memory: int
    streams: int
    consumers: int

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "AccountInfo":
        return cls(
            storage=document["storage"],
            max_storage=document["limits"]["max_storage"],
            memory=document["memory"],
            streams=document["streams"],
            consumers=document["consumers"],
        )


def differing_keys(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of a configuration that the server has otherwise. It leaves out what is empty, and adds keys of its own:
    these do not count, nor does the metadata that it adds under `_nats.`.
    """
    return tuple(key for key, value in wanted.items() if (value or None) != (_own(key, found.get(key)) or None))


def _own(key: str, value: Any) -> Any:
    if key == "metadata" and isinstance(value, Mapping):
        return {name: text for name, text in value.items() if not name.startswith("_nats.")}
    return value
