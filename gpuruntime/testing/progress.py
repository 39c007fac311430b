"""Telling a person how far a long piece of work is: a moving line on a terminal, a line now and then elsewhere."""

import time
from typing import TextIO

__all__ = ["Progress"]

_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 15.0


class Progress:
    """Reports what is being done, how far it is and how long it has taken so far."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._started = time.monotonic()
        self._shown = float("-inf")
        self._moving = False

    def step(self, text: str) -> None:
        """Say at once that something new begins, or ended."""
        self._end_moving_line()
        self._print(f"{text} ({self._elapsed()})\n")
        self._shown = time.monotonic()

    def advance(self, text: str, done: int, total: int) -> None:
        """Say how far it is; calls that come faster than a person reads are passed over."""
        now = time.monotonic()
        if now - self._shown < (_TERMINAL_SECONDS if self._terminal else _LOG_SECONDS):
            return
        self._shown = now
        line = f"  {text}: {done} of {total} ({self._elapsed()})"
        self._print(f"\r\x1b[2K{line}" if self._terminal else f"{line}\n")
        self._moving = self._terminal

    def close(self) -> None:
        self._end_moving_line()

    def _end_moving_line(self) -> None:
        if self._moving:
            self._print("\r\x1b[2K")
            self._moving = False

    def _print(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        return f"{minutes}:{seconds:02d}"
