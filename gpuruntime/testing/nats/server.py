"""A NATS server that a test starts, kills, stops and starts again on the same port and directory."""

import json
import signal
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gpuruntime.api.invocations.access import BusUser
from gpuruntime.bus import BusOptions
from gpuruntime.testing import assets
from gpuruntime.testing.cluster.pki import KeyPair
from gpuruntime.testing.nats.configuration import ADMIN, HOST, NatsFiles
from gpuruntime.testing.processes.free_port import free_port
from gpuruntime.testing.processes.supervised import ChildProcesses

__all__ = ["NatsError", "NatsServer"]

_PROCESS: Final = "nats-server"
_START_SECONDS: Final = 30.0
_PROBE_SECONDS: Final = 1.0
_ATTEMPTS: Final = 5
_GIB: Final = 2**30


class NatsError(Exception):
    """The server did not start; the message has the last line of its log."""


class NatsServer:
    """A server on a port of the loopback interface. Used as a `with` block, at whose end it is stopped.

    Guarantees:
        - It serves when `start` returns, with all streams of its directory.
        - It ends with this process, however that ends.
        - Its port is outside the range from which the kernel gives ports to others, so a restart finds it free.

    Args:
        directory: for its configuration, passwords, streams and log; they stay after the end.
        max_file: the most bytes that all streams have on disk.
        tls: serve TLS only, with a certificate of an authority of its own.
        users: more users, besides those of the product and the administrator.
        port: the port to use; a free one by default.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_file: int = _GIB,
        tls: bool = False,
        users: Iterable[BusUser] = (),
        port: int | None = None,
    ) -> None:
        self.files: Final = NatsFiles(directory)
        self._max_file = max_file
        self._tls = tls
        self._users = tuple(users)
        self._given_port = port
        self._port = port
        self._pair: KeyPair | None = None
        self._ca: Path | None = None
        self._children = ChildProcesses(directory, _START_SECONDS)

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    @property
    def port(self) -> int:
        if self._port is None:
            raise NatsError("the server has no port before its start: use a `with` block")
        return self._port

    @property
    def ca_file(self) -> Path | None:
        """The authority of its certificate; None without TLS."""
        return self._ca

    def options(self, user: str = ADMIN.name, name: str = "") -> BusOptions:
        """How a process reaches it as a user of the product, or as the administrator."""
        return self.files.options(self.url, user, name, self._ca)

    def __enter__(self) -> Self:
        self._children.__enter__()
        try:
            if self._tls:
                self._issue_certificate()
            self._start_on_a_free_port()
        except BaseException:
            self._children.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._children.__exit__(kind, error, trace)

    def start(self) -> None:
        """Start it again after `kill` or `stop`, on the same port, with what its directory has.

        Raises:
            NatsError: it exited, or does not serve in time.
        """
        self.files.write(self.port, self._max_file, self._pair, self._users)
        binary = assets.ensure(of=assets.NATS) / _PROCESS
        self._children.start(_PROCESS, [str(binary), "-c", str(self.files.configuration)], self.files.log)
        deadline = time.monotonic() + _START_SECONDS
        while not self._serves():
            code = self._children.exits().get(_PROCESS)
            if code is not None:
                raise NatsError(f"nats-server exited with code {code}: {self._last_line()}; log: {self.files.log}")
            if time.monotonic() > deadline:
                raise NatsError(f"nats-server does not serve after {_START_SECONDS:.0f} s; log: {self.files.log}")
            time.sleep(0.01)  # a starting server has no event to await

    def stop(self) -> None:
        """End it with SIGTERM."""
        self._children.stop(_PROCESS)

    def kill(self) -> None:
        """End it with SIGKILL; it is gone when this returns."""
        self._children.signal(_PROCESS, signal.SIGKILL)
        self._children.stop(_PROCESS)

    def pause(self) -> None:
        """Stop it with SIGSTOP: connections stay, and nothing answers."""
        self._children.signal(_PROCESS, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause`."""
        self._children.signal(_PROCESS, signal.SIGCONT)

    def set_max_file(self, max_file: int) -> None:
        """The limit of the next `start`."""
        self._max_file = max_file

    def change_password(self, user: str) -> None:
        """Give a user a new password. When this returns, its connections are dropped and only the new one works."""
        self.files.set_password(user)
        self.files.write(self.port, self._max_file, self._pair, self._users)
        reloads = self._reloads()
        self._children.signal(_PROCESS, signal.SIGHUP)
        while self._reloads() == reloads:
            time.sleep(0.01)  # the server writes a line when it is done, and has no event

    def _reloads(self) -> int:
        return self.files.log.read_text(errors="replace").count("Reloaded server configuration")

    def _start_on_a_free_port(self) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            self._port = self._given_port or free_port()
            try:
                self.start()
            except NatsError:
                if self._given_port is not None or attempt == _ATTEMPTS or "already in use" not in self._last_line():
                    raise
            else:
                return

    def _serves(self) -> bool:
        """Whether it accepts clients, which it does when all streams are recovered."""
        try:
            with socket.create_connection((HOST, self.port), _PROBE_SECONDS) as probe:
                probe.settimeout(_PROBE_SECONDS)
                with probe.makefile("rb") as lines:
                    kind, _, document = lines.readline().partition(b" ")
        except OSError:
            return False
        return kind == b"INFO" and bool(json.loads(document).get("jetstream"))

    def _last_line(self) -> str:
        lines = self.files.log.read_text(errors="replace").strip().splitlines() if self.files.log.exists() else []
        return lines[-1] if lines else "no output"

    def _issue_certificate(self) -> None:
        # Imported here, because it needs the package `cryptography`, and only TLS does.
        from gpuruntime.testing.cluster.certificates import Authority  # noqa: PLC0415

        authority = Authority.create(self.files.directory / "pki", "gpuruntime local NATS")
        self._pair = authority.issue("nats-server", "nats-server", hosts=("localhost", HOST))
        self._ca = authority.files.certificate
