"""The part of JetStream that the product uses: publish, read, purge, streams, consumers and pulls.

Writes that got no answer raise OutcomeUnknownError; questions raise BusTimeoutError.
"""

import base64
import secrets
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

import orjson

from gpuruntime.bus.errors import (
    BusError,
    BusTimeoutError,
    BusUnavailableError,
    ConsumerGoneError,
    OutcomeUnknownError,
    StreamMissingError,
    refusal,
)
from gpuruntime.bus.headers import NO_HEADERS, Headers, decode_headers
from gpuruntime.bus.messages import Message, OutgoingMessage, PublishAck, StoredMessage
from gpuruntime.bus.publishing import batch_frames, batch_refusal, publish_headers, read_publish_ack
from gpuruntime.bus.pulls import Pull, PullConnection
from gpuruntime.bus.streams import AccountInfo, ConsumerConfig, ConsumerInfo, StreamConfig, StreamInfo, differing_keys
from gpuruntime.bus.times import read_time

__all__ = ["JetStream", "JetStreamConnection"]

_SECONDS: Final = 5.0
_NO_MESSAGE: Final = 10037
_NO_SUCH_SEQUENCE: Final = 10043
_NAME_TAKEN: Final = (10058, 10013, 10148)
_NOT_FOUND: Final = 404
_NO_RESPONDERS: Final = 503


class JetStreamConnection(PullConnection, Protocol):
    """What JetStream needs of the connection."""

    async def ask(
        self,
        subject: str,
        body: bytes,
        headers: Headers | None,
        timeout: float,  # noqa: ASYNC109 - see Bus.request
        lost: type[BusError],
    ) -> Message: ...


class JetStream:
    """JetStream over one connection. All times are in seconds."""

    def __init__(self, bus: JetStreamConnection) -> None:
        self._bus = bus

    async def publish(
        self,
        subject: str,
        body: bytes = b"",
        headers: Headers | None = None,
        *,
        message_id: str | None = None,
        expect_last_subject_sequence: int | None = None,
        ttl: float | None = None,
        timeout: float = _SECONDS,  # noqa: ASYNC109 - see Bus.request
    ) -> PublishAck:
        """Store a message; it is on disk when this returns, if the server syncs always.

        Args:
            subject: of the message; the stream that takes it is found by it.
            body: any bytes.
            headers: of the message.
            message_id: another message with this id, within the stream's duplicate window, is not stored again.
            expect_last_subject_sequence: 0 stores it only if the stream has no message of the subject.
            ttl: seconds after which the server deletes it; whole seconds, rounded up.
            timeout: for the answer.

        Raises:
            SubjectTakenError: the stream has a message of the subject.
            QueueFullError: the stream is full.
            StorageFullError: the server is.
            MessageTooLargeError: the server, or the stream, takes less.
            StreamMissingError: no stream takes the subject.
            OutcomeUnknownError: no answer: it may be stored.
            BusUnavailableError: there is no connection, or no leader: it is not stored.
        """
        given = publish_headers(headers, message_id, expect_last_subject_sequence, ttl)
        return read_publish_ack(await self._bus.ask(subject, body, given, timeout, OutcomeUnknownError), subject)

    async def publish_batch(self, messages: Sequence[OutgoingMessage], timeout: float = _SECONDS) -> PublishAck:  # noqa: ASYNC109 - see Bus.request
        """Store all messages or none, with one sync of the disk; all must be of one stream. Returns the last's ack.

        Raises:
            BatchRefusedError: the server refused one, such as a duplicate, and so all. Send them one by one.
            OutcomeUnknownError: no answer: all may be stored, or none.
        """
        *others, (last, headers) = batch_frames(messages, secrets.token_hex(16))
        for message, given in others:
            self._bus.send(message.subject, message.body, given)
        try:
            answer = await self._bus.ask(last.subject, last.body, headers, timeout, OutcomeUnknownError)
            return read_publish_ack(answer, last.subject)
        except BusError as error:
            raise batch_refusal(error, len(messages)) from error.__cause__

    async def last_message(self, stream: str, subject: str, timeout: float = _SECONDS) -> StoredMessage | None:  # noqa: ASYNC109 - see Bus.request
        """The last message of a subject, as the leader of the stream has it; None if there is none.

        Raises:
            StreamMissingError: there is no such stream.
        """
        return await self._stored(stream, {"last_by_subj": subject}, timeout)

    async def next_message(
        self,
        stream: str,
        subject: str,
        sequence: int,
        timeout: float = _SECONDS,  # noqa: ASYNC109 - see Bus.request
    ) -> StoredMessage | None:
        """The first message of a subject, which may have wildcards, at or after a sequence, as the leader has it."""
        return await self._stored(stream, {"seq": sequence, "next_by_subj": subject}, timeout)

    async def last_message_direct(self, stream: str, subject: str, timeout: float = _SECONDS) -> StoredMessage | None:  # noqa: ASYNC109 - see Bus.request
        """`last_message` as any replica has it, cheaper and perhaps old. The stream must allow direct reads.

        Raises:
            StreamMissingError: there is no such stream, or it does not allow direct reads.
        """
        asked = f"$JS.API.DIRECT.GET.{stream}.{subject}"
        answer = await self._bus.ask(asked, b"", None, timeout, BusTimeoutError)
        if answer.status == _NOT_FOUND:
            return None
        if answer.status == _NO_RESPONDERS:
            raise StreamMissingError(f"stream {stream}: there is none that allows direct reads")
        if answer.status:
            raise BusUnavailableError(f"stream {stream}: {answer.status} {answer.description}")
        return StoredMessage(
            answer.headers["Nats-Subject"],
            int(answer.headers["Nats-Sequence"]),
            answer.body,
            answer.headers,
            read_time(answer.headers["Nats-Time-Stamp"]),
        )

    async def delete_message(self, stream: str, sequence: int, timeout: float = _SECONDS) -> bool:  # noqa: ASYNC109 - see Bus.request
        """Delete one message; False if there is none."""
        try:
            await self._write(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": True}, timeout)
        except BusError as error:
            # Past the last sequence it is the store that fails, with its text alone.
            if error.code in {_NO_MESSAGE, _NO_SUCH_SEQUENCE} or "stream store EOF" in str(error):
                return False
            raise
        return True

    async def purge(self, stream: str, subject: str | None = None, timeout: float = _SECONDS) -> int:  # noqa: ASYNC109 - see Bus.request
        """Delete the messages of a subject, which may have wildcards, or all; returns how many there were."""
        filtered = {} if subject is None else {"filter": subject}
        return int((await self._write(f"STREAM.PURGE.{stream}", filtered, timeout))["purged"])

    async def ensure_stream(self, config: StreamConfig) -> None:
        """Create a stream, or give it this configuration; an equal one costs no write.

        Raises:
            JetStreamRefusedError: the server refuses the configuration, or this change of it.
        """
        found = await self.stream_info(config.name)
        if found is None:
            try:
                await self._write(f"STREAM.CREATE.{config.name}", config.document(), _SECONDS)
            except BusError as error:
                if error.code not in _NAME_TAKEN:
                    raise
            else:
                return
        elif not differing_keys(config.document(), found.config):
            return
        await self._write(f"STREAM.UPDATE.{config.name}", config.document(), _SECONDS)

    async def delete_stream(self, name: str) -> bool:
        """Delete a stream with all its messages and consumers; False if there is none."""
        try:
            await self._write(f"STREAM.DELETE.{name}", {}, _SECONDS)
        except StreamMissingError:
            return False
        return True

    async def stream_info(self, name: str, subjects_filter: str | None = None) -> StreamInfo | None:
        """A stream; with a filter, also how many messages each of its subjects has, of 100,000 at most."""
        filtered = {} if subjects_filter is None else {"subjects_filter": subjects_filter}
        try:
            return StreamInfo.of(await self._question(f"STREAM.INFO.{name}", filtered, _SECONDS))
        except StreamMissingError:
            return None

    async def stream_names(self) -> tuple[str, ...]:
        """The names of all streams that this user sees."""
        names: list[str] = []
        while True:
            page = await self._question("STREAM.NAMES", {"offset": len(names)}, _SECONDS)
            names += page.get("streams") or ()
            if len(names) >= page["total"] or not page.get("streams"):
                return tuple(names)

    async def ensure_consumer(self, stream: str, config: ConsumerConfig) -> None:
        """Create a durable consumer, or give it this configuration; an equal one costs no write.

        Raises:
            StreamMissingError: there is no such stream.
            JetStreamRefusedError: the server refuses the configuration, or this change of it.
        """
        found = await self.consumer_info(stream, config.name)
        if found is not None and not differing_keys(config.document(), found.config):
            return
        filtered = f".{config.filter_subject}" if config.filter_subject else ""
        await self._write(
            f"CONSUMER.CREATE.{stream}.{config.name}{filtered}",
            {"stream_name": stream, "config": config.document()},
            _SECONDS,
        )

    async def delete_consumer(self, stream: str, name: str) -> bool:
        """Delete a consumer; False if there is none."""
        try:
            await self._write(f"CONSUMER.DELETE.{stream}.{name}", {}, _SECONDS)
        except (ConsumerGoneError, StreamMissingError):
            return False
        return True

    async def consumer_info(self, stream: str, name: str) -> ConsumerInfo | None:
        """A consumer; None if there is none, or no such stream."""
        try:
            return ConsumerInfo.of(await self._question(f"CONSUMER.INFO.{stream}.{name}", {}, _SECONDS))
        except (ConsumerGoneError, StreamMissingError):
            return None

    async def account_info(self) -> AccountInfo:
        """What the account uses."""
        return AccountInfo.of(await self._question("INFO", {}, _SECONDS))

    def pull(
        self, stream: str, consumer: str, *, expires: float = 30.0, heartbeat: float = 5.0
    ) -> AbstractAsyncContextManager[Pull]:
        """Deliveries of a consumer by credit: see `Pull`.

        Args:
            stream: of the consumer.
            consumer: a durable pull consumer.
            expires: seconds for which the server keeps one request.
            heartbeat: seconds between signs of life of an idle server; after two missing ones it is asked anew.
        """
        return Pull(self._bus, stream, consumer, expires, heartbeat, self.consumer_info)

    async def _stored(self, stream: str, asked: dict[str, Any], timeout: float) -> StoredMessage | None:  # noqa: ASYNC109 - see Bus.request
        try:
            found = (await self._question(f"STREAM.MSG.GET.{stream}", asked, timeout))["message"]
        except BusError as error:
            if error.code == _NO_MESSAGE:
                return None
            raise
        headers = found.get("hdrs")
        return StoredMessage(
            found["subject"],
            found["seq"],
            base64.b64decode(found.get("data", "")),
            decode_headers(base64.b64decode(headers)).headers if headers else NO_HEADERS,
            read_time(found["time"]),
        )

    async def _question(self, method: str, asked: dict[str, Any], seconds: float) -> dict[str, Any]:
        return await self._call(method, asked, seconds, BusTimeoutError)

    async def _write(self, method: str, asked: dict[str, Any], seconds: float) -> dict[str, Any]:
        return await self._call(method, asked, seconds, OutcomeUnknownError)

    async def _call(self, method: str, asked: dict[str, Any], seconds: float, lost: type[BusError]) -> dict[str, Any]:
        body = orjson.dumps(asked) if asked else b""
        answer = await self._bus.ask(f"$JS.API.{method}", body, None, seconds, lost)
        if answer.status == _NO_RESPONDERS:
            raise BusUnavailableError(f"{method}: JetStream is not enabled, or has no leader")
        document: dict[str, Any] = orjson.loads(answer.body)
        if "error" in document:
            raise refusal(document["error"], method)
        return document
