"""Progress output of a long task: an updating line on a terminal, occasional lines elsewhere."""

import time
from typing import TextIO

__all__ = ["Progress"]

_TERMINAL_SECONDS = 0.2
_LOG_SECONDS = 15.0


class Progress:
    """Prints the current step, its progress and the elapsed time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._started = time.monotonic()
        self._shown = float("-inf")
        self._line_shown = False

    def step(self, text: str) -> None:
        """Print that a step begins or has ended."""
        self._clear_line()
        self._print(f"{text} ({self._elapsed()})\n")
        self._shown = time.monotonic()

    def advance(self, text: str, done: int, total: int) -> None:
        """Print the progress of a step; calls in rapid succession are skipped."""
        now = time.monotonic()
        if now - self._shown < (_TERMINAL_SECONDS if self._terminal else _LOG_SECONDS):
            return
        self._shown = now
        line = f"  {text}: {done} of {total} ({self._elapsed()})"
        self._print(f"\r\x1b[2K{line}" if self._terminal else f"{line}\n")
        self._line_shown = self._terminal

    def close(self) -> None:
        self._clear_line()

    def _clear_line(self) -> None:
        if self._line_shown:
            self._print("\r\x1b[2K")
            self._line_shown = False

    def _print(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        return f"{minutes}:{seconds:02d}"
