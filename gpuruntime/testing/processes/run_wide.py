"""A process that serves a whole test run: the first process of the run that needs it starts it."""

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from attrs import frozen

__all__ = ["RunWideProcess", "RunWideProcessError"]

_STOP_SECONDS = 60.0
_RECORD = "runner.pid"
_Access = TypeVar("_Access")


class RunWideProcessError(Exception):
    """The process did not start or did not stop; the message has its output."""


@frozen
class RunWideProcess:
    """A process with a directory of its own, which ends with the run's main process `owner`.

    Each process of the run has an equal value. `arguments` are those of `python -m gpuruntime.testing`.
    """

    directory: Path
    owner: int
    arguments: Sequence[str]

    def start(self, load: Callable[[], _Access | None]) -> _Access:
        """Return what `load` reads from the directory; if it is nothing yet, start the process and wait for it.

        Safe for concurrent calls from many processes.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "start.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = load()
            return self._launch(load) if found is None else found

    def stop(self) -> None:
        """Stop the process if it was started, wait for its end, and remove its directory. Only the owner calls it."""
        with contextlib.suppress(FileNotFoundError), (self.directory / _RECORD).open() as record:
            try:
                fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # The runner holds the lock for its lifetime, so the PID has not been reused.
                _end(int(record.read()))
        shutil.rmtree(self.directory, ignore_errors=True)

    def _launch(self, load: Callable[[], _Access | None]) -> _Access:
        log = self.directory / "runner.log"
        command = [sys.executable, "-m", "gpuruntime.testing", *self.arguments, "--owner", str(self.owner)]
        with log.open("wb") as output, (self.directory / _RECORD).open("w") as record:
            fcntl.flock(record, fcntl.LOCK_EX)
            runner = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(record.fileno(),),  # hands the lock over to the runner
                start_new_session=True,  # Ctrl-C ends the tests first, then the owner stops the process
            )
            record.write(str(runner.pid))
        while runner.poll() is None:
            access = load()
            if access is not None:
                # The runner outlives this object on purpose; this avoids Python's ResourceWarning.
                runner.returncode = 0
                return access
            time.sleep(0.05)  # a file has no event to await
        raise RunWideProcessError(log.read_text(errors="replace").strip())


def _end(pid: int) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], _STOP_SECONDS)[0]:
            raise RunWideProcessError(f"process {pid} did not stop within {_STOP_SECONDS:.0f} s")
    except ProcessLookupError:
        return
    finally:
        os.close(process)
