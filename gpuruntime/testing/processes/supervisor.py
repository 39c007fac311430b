"""The supervisor: a script that runs child processes and stops them when its owner ends. Standard library only.

The owner starts it and sends requests as lines of JSON on standard input. Each is answered by a line on standard output
that repeats the request's `id`::

    {"do": "start", "name": "etcd", "argv": [...], "log": "/path", "env": {...}}    ->  {"pid": 123}
    {"do": "stop", "name": "etcd", "grace": 10}                                     ->  {"exit": 0}
    {"do": "signal", "name": "etcd", "signal": 9}                                   ->  {}
    {"do": "exits"}                                                                 ->  {"exits": {"etcd": 1}}

Guarantees:
    - When its standard input closes (the owner stopped, crashed or was killed), it stops every process, the youngest
      first. SIGTERM does the same. A directory given with `--remove` is removed after the last process.
    - SIGINT is ignored: Ctrl-C in a terminal reaches the owner, which decides the order.
    - If it is killed with SIGKILL, the kernel kills its children as well (Linux only).
"""

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["Supervisor", "die_with", "main"]

_GRACE_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> Callable[[], None] | None:
    """A `preexec_fn` that makes the child die with this process; None where the kernel has no such feature."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before prctl took effect
            os._exit(1)

    return bind


class Supervisor:
    """The child processes, in the order of their first start: a restart does not change it."""

    def __init__(self, inherited: tuple[int, ...]) -> None:
        """Pass the file descriptors `inherited` to every child, so that the lock is held until the last ends."""
        self._inherited = inherited
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._stopped: set[str] = set()

    def start(
        self,
        name: str,
        argv: list[str],
        log: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        *,
        clean: bool = False,
    ) -> dict[str, int]:
        """Start a process. With `clean` it has no variables but `env`."""
        if name in self._children and self._children[name].poll() is None:
            raise ValueError(f"{name} is running already")
        with Path(log).open("ab") as output:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**({} if clean else os.environ), **(env or {})},
                cwd=cwd,
                pass_fds=self._inherited,
                # This program has one thread, so running Python between fork and exec is safe here.
                preexec_fn=die_with(os.getpid()),  # noqa: PLW1509
            )
        self._children[name] = child
        self._stopped.discard(name)
        return {"pid": child.pid}

    def stop(self, name: str, grace: float = _GRACE_SECONDS) -> dict[str, int]:
        child = self._children[name]
        self._stopped.add(name)
        if child.poll() is None:
            child.terminate()
            child.send_signal(signal.SIGCONT)  # a stopped process would never see the first signal
            try:
                child.wait(grace)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        return {"exit": child.returncode}

    def signal(self, name: str, signal: int) -> dict[str, int]:
        self._children[name].send_signal(signal)
        return {}

    def exits(self) -> dict[str, dict[str, int]]:
        unexpected = {name: child.poll() for name, child in self._children.items() if name not in self._stopped}
        return {"exits": {name: code for name, code in unexpected.items() if code is not None}}

    def stop_all(self) -> None:
        for name in reversed(list(self._children)):
            self.stop(name)

    def answer(self, line: str) -> dict[str, Any]:
        """Execute one request. A failure is answered with `error`; it never ends the supervisor."""
        request: dict[str, Any] = json.loads(line)
        number = request.pop("id")
        try:
            acts: dict[str, Callable[..., dict[str, Any]]] = {
                "start": self.start,
                "stop": self.stop,
                "signal": self.signal,
                "exits": self.exits,
            }
            return {"id": number, **acts[request.pop("do")](**request)}
        except (OSError, ValueError, KeyError, TypeError) as error:
            return {"id": number, "error": f"{type(error).__name__}: {error}"}


def main(argv: list[str]) -> None:
    """Serve requests from standard input until it closes: `supervisor.py [--remove DIRECTORY] [FD...]`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--remove", type=Path)
    parser.add_argument("descriptors", type=int, nargs="*")
    arguments = parser.parse_args(argv[1:])
    supervisor = Supervisor(tuple(arguments.descriptors))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        for line in sys.stdin:
            answer = supervisor.answer(line)
            # The owner may have died before it reads the answer; then standard input ends and the children are stopped.
            with contextlib.suppress(BrokenPipeError):
                print(json.dumps(answer), flush=True)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        supervisor.stop_all()
        if arguments.remove is not None:
            shutil.rmtree(arguments.remove, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv)
