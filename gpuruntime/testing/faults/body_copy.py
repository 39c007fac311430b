"""Copying of response bodies under faults that are injected and lifted on the way."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from enum import Enum, auto

from aiohttp import ClientError, ClientResponse, web
from attrs import frozen

from gpuruntime.testing.faults.definitions import CutAfterBytes, CutAfterEvents, DelayEvents, HoldEvents
from gpuruntime.testing.faults.registry import ActiveFault, FaultRegistry, ProxiedRequest

__all__ = ["Ending", "copy_body"]


class Ending(Enum):
    """How a body ended: completely, or cut off by a fault or by the server."""

    CLEAN = auto()
    CUT = auto()


async def copy_body(
    source: ClientResponse, sink: web.StreamResponse, faults: FaultRegistry, request: ProxiedRequest
) -> Ending:
    """Copy a body under the active faults: injecting or lifting one on the way takes effect at once.

    The server is read ahead of the client, so that delayed and held events have arrived and are in order. The events of
    a watch are forwarded whole, each in its own chunk.
    """
    copy = _Copy(faults, request, events=request.watch and _has_lines(source))
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(copy.read(source))
        try:
            return await copy.write(sink)
        except ConnectionError:  # the client has disconnected
            return Ending.CUT
        finally:
            reading.cancel()


@frozen
class _Piece:
    data: bytes
    arrived: float


@frozen
class _Position:
    events: int = 0
    bytes: int = 0


@frozen
class _Wait:
    """Nothing may be forwarded before this time, or before something changes."""

    until: float | None = None


class _Copy:
    def __init__(self, faults: FaultRegistry, request: ProxiedRequest, *, events: bool) -> None:
        self._faults = faults
        self._request = request
        self._events = events
        self._pieces: deque[_Piece] = deque()
        self._source_ended: Ending | None = None
        self._position = _Position()
        # The position when a cutting fault was first seen: its count begins there.
        self._cut_from: dict[ActiveFault, _Position] = {}

    async def read(self, source: ClientResponse) -> None:
        ending = Ending.CUT
        with suppress(ClientError):
            async for data in _lines(source) if self._events else source.content.iter_any():
                self._pieces.append(_Piece(data, asyncio.get_running_loop().time()))
                self._faults.changes.announce()
                if self._events:
                    self._record_arrival()
            ending = Ending.CLEAN
        self._source_ended = ending
        self._faults.changes.announce()

    async def write(self, sink: web.StreamResponse) -> Ending:
        while True:
            match self._next(asyncio.get_running_loop().time()):
                case Ending() as ending:
                    return ending
                case _Wait(until):
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(until):
                            await self._faults.changes.change()
                case bytes() as data:
                    await sink.write(data)

    def _next(self, now: float) -> bytes | _Wait | Ending:
        faults = self._faults.matching(self._request)
        allowed = self._allowance(faults)
        if allowed == 0 or (self._request.watch and self._faults.dead):
            return Ending.CUT
        if not self._pieces:
            return self._source_ended or _Wait()
        if self._events and any(isinstance(active.fault, HoldEvents) for active in faults):
            return _Wait()
        delay = sum(active.fault.seconds for active in faults if isinstance(active.fault, DelayEvents))
        due = self._pieces[0].arrived + delay
        if self._events and due > now:
            return _Wait(due)
        return self._take(allowed)

    def _allowance(self, faults: list[ActiveFault]) -> int | None:
        """How many more bytes pass before a cut, None for any number. Records the fault that cuts now."""
        allowed: int | None = None
        for active in faults:
            fault = active.fault
            if isinstance(fault, CutAfterBytes):
                left = fault.count - (self._position.bytes - self._seen_from(active).bytes)
            elif isinstance(fault, CutAfterEvents) and self._request.watch:
                if self._position.events - self._seen_from(active).events < fault.count:
                    continue
                left = 0
            else:
                continue
            if left <= 0:
                active.record()
                return 0
            allowed = left if allowed is None else min(allowed, left)
        return allowed

    def _seen_from(self, active: ActiveFault) -> _Position:
        return self._cut_from.setdefault(active, self._position)

    def _take(self, allowed: int | None) -> bytes:
        piece = self._pieces.popleft()
        data = piece.data if allowed is None else piece.data[:allowed]
        if len(data) < len(piece.data):
            self._pieces.appendleft(_Piece(piece.data[len(data) :], piece.arrived))
        whole = len(data) == len(piece.data)
        self._position = _Position(self._position.events + whole, self._position.bytes + len(data))
        return data

    def _record_arrival(self) -> None:
        for active in self._faults.matching(self._request):
            if isinstance(active.fault, HoldEvents | DelayEvents):
                active.record()


def _has_lines(source: ClientResponse) -> bool:
    return source.content_type == "application/json" and "Content-Encoding" not in source.headers


async def _lines(source: ClientResponse) -> AsyncIterator[bytes]:
    """Lines of any length, each with its line feed, and the incomplete last line when the stream ends or breaks."""
    parts: list[bytes] = []
    try:
        async for chunk in source.content.iter_any():
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield b"".join((*parts, line, b"\n"))
                parts.clear()
            if rest:
                parts.append(rest)
    except ClientError:
        if parts:
            yield b"".join(parts)
        raise
    if parts:
        yield b"".join(parts)
