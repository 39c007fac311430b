"""One TCP connection to one server, on the client library `nats-py`: it does the handshake, TLS, pings and parsing.

What this class does itself, by overriding two methods of the library and writing to its transport:
    - Messages go to a handler at once. The library has a queue and a task for each subscription, which doubles the CPU
      time of a message.
    - Frames of one turn of the event loop are written together, and never buffered for a later connection: a publish
      that looks sent and is not would be a lie.
    - Credentials are sent only after TLS, where TLS is asked for. The library sends them to any server.

`tests/bus/test_wire_on_nats.py` pins what is used of the library's inside.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from nats.aio.client import Client
from nats.errors import Error as LibraryError

from gpuruntime.bus.credentials import SignedLogin
from gpuruntime.bus.errors import BusUnavailableError
from gpuruntime.bus.frames import Handler
from gpuruntime.bus.options import BusOptions

__all__ = ["Wire", "open_wire"]

_LOG: Final = logging.getLogger(__name__)
_STEP_SECONDS: Final = 2
_OPEN_SECONDS: Final = 10.0
_PING_SECONDS: Final = 5
_MOST_PINGS: Final = 2
_MOST_UNSENT: Final = 64 * 2**20


class Wire(Client):
    """A connection that is opened once; after its loss there is another one."""

    def __init__(self, handlers: Mapping[int, Handler], on_violation: Callable[[str], None]) -> None:
        super().__init__()
        self.lost = asyncio.Event()
        self.failure: Exception | None = None
        self._handlers = handlers
        self._on_violation = on_violation
        self._frames: list[bytes] = []
        self._encrypted_only = False
        self._loop = asyncio.get_running_loop()
        self._out: asyncio.WriteTransport | None = None

    async def open(self, server: str, name: str, given: Mapping[str, Any]) -> None:
        """Connect, with credentials and TLS as `_read_files` gives them."""
        self._encrypted_only = "tls" in given or server.startswith("tls:")
        await self.connect(
            [server],
            name=name,
            allow_reconnect=False,
            max_reconnect_attempts=1,  # 0 would try for ever, without a pause
            reconnect_time_wait=0,
            connect_timeout=_STEP_SECONDS,
            ping_interval=_PING_SECONDS,
            max_outstanding_pings=_MOST_PINGS,
            flusher_queue_size=0,  # a full queue would make the library swallow a cancellation
            error_cb=self._note,
            closed_cb=self._note_loss,
            **given,
        )
        self._out = self._stream().transport

    def send(self, frame: bytes) -> None:
        """Write a frame with others of this turn of the event loop.

        Raises:
            BusUnavailableError: the connection is lost, or the server does not read.
        """
        if self.lost.is_set() or self._out is None or not self.is_connected:
            raise BusUnavailableError("not connected to NATS: the connection was lost")
        if not self._frames:
            if self._out.get_write_buffer_size() > _MOST_UNSENT:
                raise BusUnavailableError("NATS does not read: too much waits to be sent to it")
            self._loop.call_soon(self._write)
        self._frames.append(frame)

    async def settled(self, seconds: float) -> None:
        """Return when the server has read all that was sent, and everything that it sent before that is handled.

        Raises:
            BusUnavailableError: the server did not answer in time, or the connection is lost.
        """
        self._write()
        try:
            await self.flush(max(1, round(seconds)))
        except (LibraryError, OSError) as error:
            raise BusUnavailableError(f"NATS does not answer: {_reason(error)}") from error

    async def _process_msg(  # the library calls it for each message
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None
    ) -> None:
        handler = self._handlers.get(sid)
        if handler is None:
            return
        try:
            handler(subject, reply, data, headers)
        except Exception:  # noqa: BLE001 - it would end the library's reader, and leave a connection that looks alive
            _LOG.exception("handler of a message failed", extra={"subject": subject.decode(errors="replace")})

    def _connect_command(self) -> bytes:  # the library calls it before it sends the credentials
        if self._encrypted_only and self._stream().get_extra_info("ssl_object") is None:
            raise LibraryError("the server does not offer TLS, which is required: no credentials were sent")
        return super()._connect_command()

    def _stream(self) -> asyncio.StreamWriter:
        writer = getattr(self._transport, "_io_writer", None)
        if not isinstance(writer, asyncio.StreamWriter):
            raise LibraryError("the client library has no stream: expected a server of the form nats://HOST:PORT")
        return writer

    def _write(self) -> None:
        frames, self._frames = self._frames, []
        if frames and self._out is not None and not self.lost.is_set():
            self._out.write(b"".join(frames) if len(frames) > 1 else frames[0])

    async def _note(self, error: Exception) -> None:
        text = str(error)
        if "permissions violation" in text:
            self._on_violation(text.removeprefix("nats: "))
        else:
            self.failure = error

    async def _note_loss(self) -> None:
        self.lost.set()


async def open_wire(
    server: str, options: BusOptions, handlers: Mapping[int, Handler], on_violation: Callable[[str], None]
) -> Wire:
    """Connect to a server.

    Raises:
        BusUnavailableError: it could not be reached, or refused the credentials; or a file could not be read.
    """
    try:
        given = _read_files(options)
    except (OSError, ValueError) as error:
        raise BusUnavailableError(f"cannot connect to NATS at {server}: {_reason(error)}") from error
    wire = Wire(handlers, on_violation)
    try:
        async with asyncio.timeout(_OPEN_SECONDS):
            await wire.open(server, options.name, given)
    except BaseException as error:
        # The library leaves the socket of a failed handshake open.
        await wire.close()
        if not isinstance(error, LibraryError | OSError | ValueError):
            raise
        raise BusUnavailableError(f"cannot connect to NATS at {server}: {_reason(wire.failure or error)}") from error
    return wire


def _read_files(options: BusOptions) -> dict[str, Any]:
    """What the library takes as credentials and TLS, with what the files have now."""
    login = options.credentials.read()
    given: dict[str, Any] = {} if options.tls is None else {"tls": options.tls.context()}
    if isinstance(login, SignedLogin):
        return given | {"signature_cb": login.sign, "user_jwt_cb": login.jwt.encode}
    return given | {"user": login.user, "password": login.password, "token": login.token}


def _reason(error: BaseException) -> str:
    text = str(error).removeprefix("nats: ").strip("'")
    return text or type(error).__name__
