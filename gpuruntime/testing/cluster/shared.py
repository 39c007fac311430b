"""One cluster for a whole test run, shared by all processes of the run.

The first process that needs the cluster starts it, in a separate process that ends with the run's main process.
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
    """The cluster of the test run whose main process is `owner`. Each process of the run has an equal value."""

    directory: Path
    owner: int

    def start(self) -> ClusterAccess:
        """Return the running cluster, starting it first if necessary. Safe for concurrent calls from many processes."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "start.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return ClusterAccess.load(self.directory) or self._launch()

    def stop(self) -> None:
        """Stop the cluster if it was started, wait for its end, and remove its directory. Only the owner calls it."""
        with contextlib.suppress(FileNotFoundError), (self.directory / _RECORD).open() as record:
            try:
                fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # The runner holds the lock for its lifetime, so the PID has not been reused.
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
                pass_fds=(record.fileno(),),  # hands the lock over to the runner
                start_new_session=True,  # Ctrl-C ends the tests first, then the owner stops the cluster
            )
            record.write(str(runner.pid))
        while runner.poll() is None:
            access = ClusterAccess.load(self.directory)
            if access is not None:
                # The runner outlives this object on purpose; this avoids Python's ResourceWarning.
                runner.returncode = 0
                return access
            time.sleep(0.05)  # a file has no event to await
        raise ClusterError(f"the cluster did not start: {log.read_text(errors='replace').strip()}")


def _end(pid: int) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], _STOP_SECONDS)[0]:
            raise ClusterError(f"the cluster with process {pid} did not stop within {_STOP_SECONDS:.0f} s")
    except ProcessLookupError:
        return
    finally:
        os.close(process)
