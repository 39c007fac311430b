"""SIGTERM and SIGINT: the first stops gracefully, the second kills the process."""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["StopSignals"]

_LOG = logging.getLogger(__name__)
_NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """During a `with` block, the first signal calls `stop` and a second one kills the process.

    Before the process is killed, the tasks that `running` returns are logged.
    """

    def __init__(self, stop: Callable[[], None], running: Callable[[], Sequence[str]]) -> None:
        self._stop = stop
        self._running = running
        self._loop = asyncio.get_running_loop()
        self._is_stopping = False

    def __enter__(self) -> None:
        for number in _NUMBERS:
            self._loop.add_signal_handler(number, self._signalled, number)

    def __exit__(self, *_: object) -> None:
        for number in _NUMBERS:
            self._loop.remove_signal_handler(number)

    def _signalled(self, number: signal.Signals) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            _LOG.info("stopping", extra={"signal": number.name})
            self._stop()
            return
        _LOG.error("second signal, exiting immediately", extra={"signal": number.name, "tasks": list(self._running())})
        self._loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
