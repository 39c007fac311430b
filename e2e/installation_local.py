"""An installation on a local cluster, run by `e2e.host` in a separate process."""

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from attrs import frozen

from e2e.audit_trail import AuditTrail
from e2e.caller import Caller
from e2e.cluster_view import ClusterView, eventually
from e2e.host import Life
from e2e.installation import Installation, Replica
from e2e.names import CONTROLLERS, RUNTIME_APIS
from gpuruntime.testing import ClusterAccess

__all__ = ["LocalReplicas", "own_installation", "shared_installation"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_OVERLAY: Final = _ROOT / "manifests" / "overlays" / "local"
_LEADS: Final = 'leader_election_master_status{name="gpuruntime-controller-manager"} 1.0'
_DEPTHS: Final = re.compile(r"^(?:workqueue_depth|workqueue_unfinished_work_seconds)\{.*\} (\S+)$", re.MULTILINE)
_TAIL: Final = 6000
_STOP_SECONDS: Final = 60.0


@frozen
class LocalReplicas:
    """Local processes that the host restarts."""

    directory: Path

    def living(self, process: str) -> Mapping[str, Replica]:
        return {name: _replica(life) for name, life in self._lives().items() if name.startswith(process)}

    def leader(self) -> Replica:
        def leading() -> Replica | None:
            for life in self._lives().values():
                if life.replica.startswith(CONTROLLERS) and _LEADS in (_ask(life, "/metrics") or ""):
                    return _replica(life)
            return None

        return eventually(leading, "a controller manager that leads")

    def kill(self, replica: Replica) -> None:
        self._signal(replica, signal.SIGKILL)

    def end(self, replica: Replica) -> None:
        self._signal(replica, signal.SIGTERM)

    def roll(self, process: str) -> None:
        for replica in self.living(process).values():
            self.end(replica)
            self.restarted(replica)

    def restarted(self, replica: Replica) -> Replica:
        """Wait until the replica is restarted and ready, and return it."""

        def read() -> Replica | None:
            life = self._lives()[replica.name]
            is_new = str(life.number) != replica.life
            return _replica(life) if is_new and _ask(life, "/readyz") is not None else None

        return eventually(read, f"another life of {replica.name}")

    def wait_until_ready(self) -> None:
        for process in (CONTROLLERS, RUNTIME_APIS):
            for name in self.living(process):
                eventually(partial(self._is_ready, name), f"{name} that is ready")
        self.leader()

    def wait_until_idle(self) -> None:
        """Wait until there is a leader with an empty queue."""

        def is_idle() -> bool:
            leader = self.leader()
            text = _ask(self._lives()[leader.name], "/metrics") or ""
            found = _DEPTHS.findall(text)
            return bool(found) and not any(float(number) for number in found)

        eventually(is_idle, "a controller manager that rests")

    def logs(self) -> Mapping[str, str]:
        return {path.stem: path.read_text()[-_TAIL:] for path in sorted((self.directory / "logs").glob("*.log"))}

    def run_program(self, process: str, module: str) -> None:
        """Run another program at the next restarts of a process."""
        (self.directory / f"{process}.program").write_text(module)

    def _is_ready(self, name: str) -> bool:
        return _ask(self._lives()[name], "/readyz") is not None

    def _signal(self, replica: Replica, number: signal.Signals) -> None:
        life = self._lives()[replica.name]
        assert str(life.number) == replica.life, f"{replica} has ended already"
        os.kill(life.pid, number)

    def _lives(self) -> dict[str, Life]:
        """The latest process of each replica, by name."""
        lives = [Life(**fields) for fields in json.loads((self.directory / "replicas.json").read_text())]
        return {life.replica: life for life in lives}


def _replica(life: Life) -> Replica:
    return Replica(life.replica, str(life.number), life.credential)


def _ask(life: Life, path: str) -> str | None:
    try:
        with urllib.request.urlopen(f"http://{life.metrics}{path}", timeout=5) as response:
            return str(response.read().decode())
    except (urllib.error.URLError, OSError):
        return None


@contextmanager
def own_installation(directory: Path) -> Iterator[Installation]:
    """A separate installation for the length of the block."""
    host = _start(directory, os.getpid())
    try:
        yield _await(directory, host)
    finally:
        host.send_signal(signal.SIGTERM)
        host.wait()


@contextmanager
def shared_installation(directory: Path, owner: int) -> Iterator[Installation]:
    """The installation that all users of a directory share, such as xdist workers: the first user starts it.

    The last user stops it; so does the exit of the process `owner`.
    """
    directory.mkdir(exist_ok=True)
    with (directory / "users.lock").open("w") as users:
        while not _enter(directory, owner, users):
            pass
        try:
            yield _load(directory)
        finally:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _stop(directory)


def _enter(directory: Path, owner: int, users: TextIO) -> bool:
    """Hold the lock shared with all users; starting and stopping need it exclusively."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not (directory / "installation.json").exists():
            host = _start(directory, owner)
            _await(directory, host)
            host.returncode = 0  # it outlives this object intentionally
    fcntl.flock(users, fcntl.LOCK_SH)
    # The last user may have stopped it while we waited.
    return (directory / "installation.json").exists()


def _start(directory: Path, owner: int) -> subprocess.Popen[bytes]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "host.log").open("wb") as output:
        host = subprocess.Popen(
            [sys.executable, "-m", "e2e.host", str(directory), "--owner", str(owner)],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C must end the stories first
        )
    (directory / "host.pid").write_text(str(host.pid))
    return host


def _await(directory: Path, host: subprocess.Popen[bytes]) -> Installation:
    while not (directory / "installation.json").exists():
        assert host.poll() is None, (directory / "host.log").read_text()[-_TAIL:]
        time.sleep(0.05)  # the file appears when everything is ready: there is no event to await
    return _load(directory)


def _load(directory: Path) -> Installation:
    access = ClusterAccess.load(directory / "cluster")
    assert access is not None
    assert access.audit_log is not None
    reached = json.loads((directory / "installation.json").read_text())
    return Installation(
        Caller(reached["url"], reached["token"]),
        ClusterView(access.kubeconfig),
        LocalReplicas(directory),
        access.kubectl,
        _OVERLAY,
        directory,
        AuditTrail(access.audit_log),
    )


def _stop(directory: Path) -> None:
    (directory / "installation.json").unlink()
    with contextlib.suppress(ProcessLookupError):
        host = os.pidfd_open(int((directory / "host.pid").read_text()))
        try:
            signal.pidfd_send_signal(host, signal.SIGTERM)
            select.select([host], [], [], _STOP_SECONDS)
        finally:
            os.close(host)
