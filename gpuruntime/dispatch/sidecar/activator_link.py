"""The connection to an activator, made again for ever.

| what happens | then |
|---|---|
| no activator answers, a connection is lost, a ping is not answered | the next try, after a delay that grows to 5 s |
| 401 or 403 | a clear line in the log; the next try, after a delay that grows to 30 s, with the token of then |
| the token file is missing or empty | the same as no answer |
| the activator sends Drain | a new connection; the Service picks another activator |
| the offer of slots changes | a new connection, whose Hello has the new offer |
| a frame cannot be read, or has no place | the connection is closed with 1002, and made again |

Runs go on meanwhile. Each connection begins with all leases and results that the sidecar holds.
"""

import asyncio
import logging
import ssl
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

import aiohttp

from gpuruntime.aio import Backoff
from gpuruntime.dispatch.protocol import (
    FRAME_LIMIT,
    ActivatorFrame,
    Drain,
    Draining,
    ProtocolError,
    Welcome,
    decode_from_activator,
    encode_frame,
)
from gpuruntime.dispatch.sidecar.durations import Durations
from gpuruntime.dispatch.sidecar.outbox import Outbox
from gpuruntime.dispatch.sidecar.worker import Worker

__all__ = ["ActivatorLink"]

_LOG = logging.getLogger(__name__)
_REFUSED: Final = frozenset({401, 403})
_PROTOCOL_ERROR: Final = aiohttp.WSCloseCode.PROTOCOL_ERROR
_LEAST_HEARTBEAT: Final = 0.05
_SHOWN: Final = 300


class _ReplacedError(Exception):
    """A connection is to be replaced by a new one. The message says why."""


class ActivatorLink:
    """Keeps the worker connected to an activator."""

    def __init__(
        self,
        url: str,
        token_file: Path,
        tls: ssl.SSLContext | None,
        worker: Worker,
        outbox: Outbox,
        durations: Durations,
    ) -> None:
        self._url = url
        self._token_file = token_file
        self._tls = tls
        self._worker = worker
        self._outbox = outbox
        self._durations = durations
        self._offered = -1
        self._offer_changed = asyncio.Event()
        self.is_connected = False

    def offer_changed(self) -> None:
        """The worker may offer another number of slots than before."""
        if self._worker.offered_slots != self._offered:
            self._offer_changed.set()

    async def keep(self) -> None:
        """Connect, again and again, until cancelled."""
        reconnect, refused = Backoff(self._durations.reconnect), Backoff(self._durations.refused)
        loop = asyncio.get_running_loop()
        # Names are resolved at each connect: activators come and go.
        connector = aiohttp.TCPConnector(use_dns_cache=False, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            while True:
                backoff = reconnect
                try:
                    await self._connected(session)
                except _ReplacedError as end:
                    _LOG.info("connecting again", extra={"reason": str(end)})
                except aiohttp.WSServerHandshakeError as error:
                    backoff = refused if error.status in _REFUSED else reconnect
                    self._log_refusal(error)
                except (aiohttp.ClientError, OSError, ProtocolError) as error:
                    reason = str(error) or type(error).__name__
                    _LOG.warning("the connection to the activator failed", extra={"url": self._url, "reason": reason})
                await asyncio.sleep(backoff.next(loop.time()))

    async def _connected(self, session: aiohttp.ClientSession) -> None:
        """One connection.

        Raises:
            _ReplacedError: a new one is to be made.
            ClientError, OSError: it failed.
            ProtocolError: the activator sent what is no frame.
        """
        headers = {"Authorization": f"Bearer {_token(self._token_file)}"}
        async with asyncio.timeout(self._durations.connect):
            socket = await session.ws_connect(
                self._url,
                headers=headers,
                ssl=self._tls if self._tls is not None else True,
                heartbeat=self._durations.ping,
                max_msg_size=FRAME_LIMIT,
                timeout=aiohttp.ClientWSTimeout(ws_close=self._durations.close),
            )
        try:
            await self._served(socket)
        except ProtocolError as error:
            await socket.close(code=_PROTOCOL_ERROR, message=str(error).encode()[:100])
            raise
        finally:
            self.is_connected = False
            self._outbox.close()
            await socket.close()

    async def _served(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._offer_changed.clear()
        hello = self._worker.hello()
        self._offered = hello.slots
        async with asyncio.timeout(self._durations.connect):
            await socket.send_bytes(encode_frame(hello))
            welcome, _ = await _received(socket)
        if not isinstance(welcome, Welcome):
            raise ProtocolError(f"expected welcome as the first frame, got {welcome.TYPE}")
        _LOG.info("connected", extra={"activator": welcome.activator, "slots": hello.slots})
        self.is_connected = True
        self._outbox.open()
        self._worker.connected(welcome)
        if self._worker.is_draining and not hello.draining:
            # The drain began while the activator answered.
            self._outbox.put(Draining())
        self.offer_changed()
        await _until_one_ends(
            self._receive(socket),
            self._send(socket),
            self._beat(max(_LEAST_HEARTBEAT, welcome.heartbeat_millis / 1000)),
            self._end_of_offer(),
        )

    async def _receive(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            frame, body = await _received(socket)
            if isinstance(frame, Drain):
                await self._replace("the activator stops")
            self._worker.handle(frame, body)

    async def _send(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            frame, body = await self._outbox.first()
            await socket.send_bytes(encode_frame(frame, body))
            self._outbox.sent()

    async def _beat(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            self._outbox.put(self._worker.heartbeat())

    async def _end_of_offer(self) -> None:
        await self._offer_changed.wait()
        await self._replace("the worker offers another number of slots")

    async def _replace(self, reason: str) -> NoReturn:
        # A release is sent once: a connection that ends on purpose does not take it along.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._durations.close):
                await self._outbox.flush()
        raise _ReplacedError(reason)

    def _log_refusal(self, error: aiohttp.WSServerHandshakeError) -> None:
        if error.status not in _REFUSED:
            fields = {"url": self._url, "status": error.status}
            _LOG.warning("the activator refused the connection", extra=fields)
            return
        _LOG.error(
            "the activator refused this worker: check the token, its audience, and that the pod belongs to a function",
            extra={"url": self._url, "status": error.status, "token_file": str(self._token_file)},
        )


def _token(file: Path) -> str:
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OSError(f"the token cannot be read: {error}") from error
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise OSError(f"{file}: expected a token, got {len(token)} characters that are none")
    return token


async def _received(socket: aiohttp.ClientWebSocketResponse) -> tuple[ActivatorFrame, bytes]:
    message = await socket.receive()
    if message.type is aiohttp.WSMsgType.BINARY:
        return decode_from_activator(message.data)
    if message.type is aiohttp.WSMsgType.TEXT:
        raise ProtocolError("expected binary messages, got text")
    if message.type is aiohttp.WSMsgType.ERROR:
        raise aiohttp.ClientConnectionError(f"the connection ended: {socket.exception()!r}"[:_SHOWN])
    raise aiohttp.ClientConnectionError(
        f"the activator closed the connection: {message.extra or message.data!r}"[:_SHOWN]
    )


async def _until_one_ends(*works: Coroutine[Any, Any, None]) -> None:
    """Run all until the first one ends, and raise what it raised; the others are cancelled."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()
