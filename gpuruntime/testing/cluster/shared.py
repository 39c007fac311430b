"""One cluster for a whole test run, however many processes the run has.

The first process that needs it starts it, in a process of its own that ends with the one that the user started.
"""

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from attrs import frozen

from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.cluster.local import ClusterError

__all__ = ["SharedCluster"]

_STOP_SECONDS = 60.0
_RECORD = "runner.pid"


@frozen
class SharedCluster:
    """The cluster of the test run that process `owner` leads. Every process of the run may hold an equal value."""

    directory: Path
    owner: int

    def start(self) -> ClusterAccess:
        """The running cluster; starts it if nobody has. Safe to call from several processes at once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "start.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return ClusterAccess.load(self.directory) or self._launch()

    def stop(self) -> None:
        """End it if it was started, wait until it is gone, and remove its directory. For the owner."""
        with contextlib.suppress(FileNotFoundError), (self.directory / _RECORD).open() as record:
            try:
                fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # The runner holds the lock as long as it lives, so this is its id and nobody else's.
                _end(int(record.read()))
        shutil.rmtree(self.directory, ignore_errors=True)

    def _launch(self) -> ClusterAccess:
        log = self.directory / "runner.log"
        command = [sys.executable, "-m", "gpuruntime.testing", "cluster", str(self.directory)]
        with log.open("wb") as output, (self.directory / _RECORD).open("w") as record:
            fcntl.flock(record, fcntl.LOCK_EX)
            runner = subprocess.Popen(
                [*command, "--audit", "--owner", str(self.owner)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(record.fileno(),),  # the lock is the runner's from now on
                start_new_session=True,  # a Ctrl-C ends the tests first, then the owner ends the cluster
            )
            record.write(str(runner.pid))
        while runner.poll() is None:
            access = ClusterAccess.load(self.directory)
            if access is not None:
                # It outlives this object on purpose; without this, Python would warn about a forgotten child.
                runner.returncode = 0
                return access
            time.sleep(0.05)  # the file appears when it is ready: there is no event to await
        raise ClusterError(f"the cluster did not start: {log.read_text(errors='replace').strip()}")


def _end(pid: int) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], _STOP_SECONDS)[0]:
            raise ClusterError(f"the cluster of process {pid} did not end within {_STOP_SECONDS:.0f} s")
    except ProcessLookupError:
        return
    finally:
        os.close(process)
