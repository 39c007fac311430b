"""The state of this checkout's running stack."""

import fcntl
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from attrs import asdict, frozen

from gpuruntime.testing.published_files import publish, read_published

__all__ = ["AlreadyUpError", "RunningStack", "owner_of", "ownership", "state_directory"]

_FILE = "running.json"


def state_directory() -> Path:
    """The state directory of this checkout; GPURUNTIME_STATE overrides it, for tests."""
    given = os.environ.get("GPURUNTIME_STATE")
    return Path(given).resolve() if given else Path(__file__).resolve().parents[3] / ".gpuruntime"


class AlreadyUpError(Exception):
    """Another process owns the stack of this checkout."""


@contextmanager
def ownership(directory: Path) -> Iterator[None]:
    """Own the stack of `directory` exclusively; the ownership ends with the process."""
    with (directory / "owner").open("a+") as record:
        try:
            fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyUpError("the stack of this checkout is already running: ./hack/down stops it") from None
        record.truncate(0)
        record.write(str(os.getpid()))
        record.flush()
        try:
            yield
        finally:
            record.truncate(0)


def owner_of(directory: Path) -> int | None:
    """The pid of the process that owns the stack of `directory`, if there is one."""
    try:
        with (directory / "owner").open() as record:
            try:
                fcntl.flock(record, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = record.read()
                return int(text) if text else None  # the owner has the lock but has not written its pid yet
    except FileNotFoundError:
        pass
    return None


@frozen
class RunningStack:
    """A running stack: its owner, and what its users need."""

    pid: int
    url: str
    kubeconfig: str
    token: str
    binaries: str
    kubectl_cache: str
    access_url: str | None = None

    def save(self, directory: Path) -> None:
        """Write the file atomically, readable by the user only: it contains a token."""
        publish(directory / _FILE, asdict(self), is_secret=True)

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        fields = read_published(directory / _FILE)
        return None if fields is None else cls(**fields)

    @staticmethod
    def withdraw(directory: Path) -> None:
        (directory / _FILE).unlink(missing_ok=True)

    def exports(self) -> str:
        """Export lines for a shell."""
        variables = {
            "KUBECONFIG": self.kubeconfig,
            "KUBECACHEDIR": self.kubectl_cache,
            "GPURUNTIME_URL": self.url,
            "GPURUNTIME_TOKEN": self.token,
        }
        if self.access_url is not None:
            variables["GPURUNTIME_ACCESS_URL"] = self.access_url
        lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        return "\n".join([*lines, f'export PATH={shlex.quote(self.binaries)}:"$PATH"'])
