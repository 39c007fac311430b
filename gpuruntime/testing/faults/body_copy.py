"""Copying the body of a response while faults come and go."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from enum import Enum, auto

from aiohttp import ClientError, ClientResponse, web
from attrs import frozen

from gpuruntime.testing.faults.definitions import CutAfterBytes, CutAfterEvents, DelayEvents, HoldEvents
from gpuruntime.testing.faults.registry import ActiveFault, FaultRegistry, Subject

__all__ = ["Ending", "copy_body"]


class Ending(Enum):
    """How a body ended: as the server meant it, or cut, by a fault or because the server broke off."""

    CLEAN = auto()
    CUT = auto()


async def copy_body(source: ClientResponse, sink: web.StreamResponse, board: FaultRegistry, subject: Subject) -> Ending:
    """Copy until the end, under the faults of the moment: one that is injected or lifted on the way acts at once.

    The server is read ahead of the client, so that events that are late or held have arrived and are in order. The
    events of a watch are passed on whole, each in a chunk of its own.
    """
    copy = _Copy(board, subject, events=subject.watch and _has_lines(source))
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(copy.read(source))
        try:
            return await copy.write(sink)
        except ConnectionError:  # the client has gone
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
    """Nothing may be passed on before this time, or before something changes."""

    until: float | None = None


class _Copy:
    def __init__(self, board: FaultRegistry, subject: Subject, *, events: bool) -> None:
        self._board = board
        self._subject = subject
        self._events = events
        self._pieces: deque[_Piece] = deque()
        self._source_ended: Ending | None = None
        self._position = _Position()
        # Where the stream was when a fault that cuts it was first seen: its count begins there.
        self._cut_from: dict[ActiveFault, _Position] = {}

    async def read(self, source: ClientResponse) -> None:
        ending = Ending.CUT
        with suppress(ClientError):
            async for data in _lines(source) if self._events else source.content.iter_any():
                self._pieces.append(_Piece(data, asyncio.get_running_loop().time()))
                self._board.changes.announce()
                if self._events:
                    self._note_arrival()
            ending = Ending.CLEAN
        self._source_ended = ending
        self._board.changes.announce()

    async def write(self, sink: web.StreamResponse) -> Ending:
        while True:
            match self._next(asyncio.get_running_loop().time()):
                case Ending() as ending:
                    return ending
                case _Wait(until):
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(until):
                            await self._board.changes.change()
                case bytes() as data:
                    await sink.write(data)

    def _next(self, now: float) -> bytes | _Wait | Ending:
        faults = self._board.meeting(self._subject)
        allowed = self._allowance(faults)
        if allowed == 0 or (self._subject.watch and self._board.dead):
            return Ending.CUT
        if not self._pieces:
            return self._source_ended or _Wait()
        if self._events and any(isinstance(active.fault, HoldEvents) for active in faults):
            return _Wait()
        late = sum(active.fault.seconds for active in faults if isinstance(active.fault, DelayEvents))
        due = self._pieces[0].arrived + late
        if self._events and due > now:
            return _Wait(due)
        return self._take(allowed)

    def _allowance(self, faults: list[ActiveFault]) -> int | None:
        """How many more bytes may pass before a cut; None for any number. Done faults are told so."""
        allowed: int | None = None
        for active in faults:
            fault = active.fault
            if isinstance(fault, CutAfterBytes):
                left = fault.count - (self._position.bytes - self._seen_from(active).bytes)
            elif isinstance(fault, CutAfterEvents) and self._subject.watch:
                if self._position.events - self._seen_from(active).events < fault.count:
                    continue
                left = 0
            else:
                continue
            if left <= 0:
                active.note()
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

    def _note_arrival(self) -> None:
        for active in self._board.meeting(self._subject):
            if isinstance(active.fault, HoldEvents | DelayEvents):
                active.note()


def _has_lines(source: ClientResponse) -> bool:
    return source.content_type == "application/json" and "Content-Encoding" not in source.headers


async def _lines(source: ClientResponse) -> AsyncIterator[bytes]:
    """The lines, however long, each with its line feed; what follows the last one when the stream ends or breaks."""
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
