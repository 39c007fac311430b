"""The owner's side of a supervisor: start, stop, signal and watch child processes that never outlive this process."""

import contextlib
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpuruntime.testing.processes import supervisor

__all__ = ["Children", "ChildrenError", "DirectoryInUseError"]


class ChildrenError(Exception):
    """A child process could not be started or talked to."""


class DirectoryInUseError(ChildrenError):
    """Another process works in this directory now."""


class Children:
    """Child processes that work in one directory.

    Guarantees:
        - One owner a directory at a time: entering takes a lock that lasts until the last child has ended, so whoever
          gets the lock next starts on clean ground.
        - Leaving stops all children, the youngest first. If this process dies in any way, they are stopped, too.
        - A temporary directory is removed after that, also if this process has died.
    """

    def __init__(self, directory: Path, patience: float = 0.0, *, temporary: bool = False) -> None:
        """Work in `directory`, and give the children of an earlier owner `patience` seconds to end."""
        self._directory = directory
        self._patience = patience
        self._temporary = temporary
        self._numbers = itertools.count()
        self._lock: int | None = None
        self._keeper: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take(lock)
            script = [sys.executable, "-I", supervisor.__file__]
            removal = ["--remove", str(self._directory.resolve())] if self._temporary else []
            self._keeper = subprocess.Popen(
                [*script, *removal, str(lock)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=(lock,),
                start_new_session=True,  # a Ctrl-C in the terminal must not reach the children before us
            )
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keeper is not None:
            assert self._keeper.stdin is not None  # noqa: S101 - Popen was given a pipe
            assert self._keeper.stdout is not None  # noqa: S101 - Popen was given a pipe
            with contextlib.suppress(OSError):  # a supervisor that is gone cannot take what was left to say
                self._keeper.stdin.close()
            self._keeper.wait()
            self._keeper.stdout.close()
            self._keeper = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def start(self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> int:
        """Start a process under a name that is free, its output appended to `log`; gives its id."""
        log.parent.mkdir(parents=True, exist_ok=True)
        answer = self._ask(do="start", name=name, argv=list(argv), log=str(log), env=None if env is None else dict(env))
        return int(answer["pid"])

    def stop(self, name: str, grace: float = 10.0) -> int:
        """End a process with SIGTERM, after `grace` seconds with SIGKILL; gives its exit code."""
        return int(self._ask(do="stop", name=name, grace=grace)["exit"])

    def signal(self, name: str, number: signal.Signals) -> None:
        self._ask(do="signal", name=name, signal=int(number))

    def exits(self) -> Mapping[str, int]:
        """Which of the processes ended by themselves, with their exit codes."""
        return {str(name): int(code) for name, code in self._ask(do="exits")["exits"].items()}

    def _ask(self, **request: Any) -> dict[str, Any]:
        if self._keeper is None:
            raise ChildrenError(f"no processes are kept in {self._directory}: enter the context first")
        assert self._keeper.stdin is not None  # noqa: S101 - Popen was given a pipe
        assert self._keeper.stdout is not None  # noqa: S101 - Popen was given a pipe
        number = next(self._numbers)
        answer: dict[str, Any] = {}
        try:
            self._keeper.stdin.write(json.dumps({"id": number, **request}) + "\n")
            self._keeper.stdin.flush()
            # A signal handler that raises may have interrupted an earlier request before its answer was read.
            while answer.get("id") != number:
                line = self._keeper.stdout.readline()
                if not line:
                    raise ChildrenError(f"the supervisor of {self._directory} is gone: it closed its output")
                answer = json.loads(line)
        except OSError as error:
            raise ChildrenError(f"the supervisor of {self._directory} is gone: {error}") from error
        if "error" in answer:
            raise ChildrenError(f"cannot {request['do']} {request.get('name', 'processes')}: {answer['error']}")
        return answer

    def _take(self, lock: int) -> None:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise DirectoryInUseError(f"processes of another run work in {self._directory}") from None
                time.sleep(0.05)  # a lock cannot be awaited with a deadline
            else:
                return
