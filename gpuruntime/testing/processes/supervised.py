"""Child processes that never outlive this process: the client of the supervisor."""

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

__all__ = ["ChildProcesses", "DirectoryInUseError", "SupervisorError"]


class SupervisorError(Exception):
    """A request to the supervisor failed: a process could not be started, or the supervisor is gone."""


class DirectoryInUseError(SupervisorError):
    """Processes of another owner use this directory."""


class ChildProcesses:
    """Child processes with a common directory.

    Guarantees:
        - A directory has one owner at a time: entering takes a lock that is held until the last child has ended, so
          the next owner never meets processes of an earlier one.
        - Leaving stops all children, the youngest first. They are also stopped if this process dies for any reason.
        - A temporary directory is removed after that, also if this process has died.
    """

    def __init__(
        self,
        directory: Path,
        lock_timeout: float = 0.0,
        *,
        temporary: bool = False,
        inherited: tuple[int, ...] = (),
    ) -> None:
        """Use `directory`, waiting up to `lock_timeout` seconds for the children of an earlier owner to end.

        Every child inherits the file descriptors `inherited`, for instance of another lock.
        """
        self._directory = directory
        self._lock_timeout = lock_timeout
        self._temporary = temporary
        self._inherited = inherited
        self._numbers = itertools.count()
        self._lock: int | None = None
        self._supervisor: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._acquire(lock)
            inherited = (lock, *self._inherited)
            script = [sys.executable, "-I", supervisor.__file__]
            removal = ["--remove", str(self._directory.resolve())] if self._temporary else []
            self._supervisor = subprocess.Popen(
                [*script, *removal, *map(str, inherited)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=inherited,
                start_new_session=True,  # Ctrl-C in the terminal must not reach the children before us
            )
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._supervisor is not None:
            assert self._supervisor.stdin is not None  # noqa: S101 - Popen was given a pipe
            assert self._supervisor.stdout is not None  # noqa: S101 - Popen was given a pipe
            with contextlib.suppress(OSError):  # closing flushes, which fails if the supervisor is gone
                self._supervisor.stdin.close()
            self._supervisor.wait()
            self._supervisor.stdout.close()
            self._supervisor = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def start(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        *,
        cwd: Path | None = None,
        clean: bool = False,
    ) -> int:
        """Start a process under an unused name, with its output appended to `log`; returns its PID.

        It has the variables of this process and `env`, with `clean` those of `env` alone.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        answer = self._request(
            do="start",
            name=name,
            argv=list(argv),
            log=str(log),
            env=dict(env or {}),
            cwd=None if cwd is None else str(cwd),
            clean=clean,
        )
        return int(answer["pid"])

    def stop(self, name: str, grace: float = 10.0) -> int:
        """Stop a process with SIGTERM, after `grace` seconds with SIGKILL; returns its exit code."""
        return int(self._request(do="stop", name=name, grace=grace)["exit"])

    def signal(self, name: str, number: signal.Signals) -> None:
        self._request(do="signal", name=name, signal=int(number))

    def exits(self) -> Mapping[str, int]:
        """The exit codes of processes that ended by themselves, by name."""
        return {str(name): int(code) for name, code in self._request(do="exits")["exits"].items()}

    def _request(self, **request: Any) -> dict[str, Any]:
        if self._supervisor is None:
            raise SupervisorError(f"the supervisor of {self._directory} is not running: use a `with` block")
        assert self._supervisor.stdin is not None  # noqa: S101 - Popen was given a pipe
        assert self._supervisor.stdout is not None  # noqa: S101 - Popen was given a pipe
        number = next(self._numbers)
        answer: dict[str, Any] = {}
        try:
            self._supervisor.stdin.write(json.dumps({"id": number, **request}) + "\n")
            self._supervisor.stdin.flush()
            # A signal handler that raises may have interrupted an earlier request before its answer was read.
            while answer.get("id") != number:
                line = self._supervisor.stdout.readline()
                if not line:
                    raise SupervisorError(f"the supervisor of {self._directory} is gone: it closed its output")
                answer = json.loads(line)
        except OSError as error:
            raise SupervisorError(f"the supervisor of {self._directory} is gone: {error}") from error
        if "error" in answer:
            raise SupervisorError(f"cannot {request['do']} {request.get('name', 'processes')}: {answer['error']}")
        return answer

    def _acquire(self, lock: int) -> None:
        deadline = time.monotonic() + self._lock_timeout
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise DirectoryInUseError(f"{self._directory} is in use by processes of another owner") from None
                time.sleep(0.05)  # flock has no timeout
            else:
                return
