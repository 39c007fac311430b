"""One cluster for a whole test run, shared by all processes of the run.

The first process that needs the cluster starts it, in a separate process that ends with the run's main process.
"""

from functools import partial
from pathlib import Path

from attrs import frozen

from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.cluster.local import ClusterError
from gpuruntime.testing.processes.run_wide import RunWideProcess, RunWideProcessError

__all__ = ["SharedCluster"]


@frozen
class SharedCluster:
    """The cluster of the test run whose main process is `owner`. Each process of the run has an equal value."""

    directory: Path
    owner: int

    def start(self) -> ClusterAccess:
        """Return the running cluster, starting it first if necessary. Safe for concurrent calls from many processes."""
        try:
            return self._process().start(partial(ClusterAccess.load, self.directory))
        except RunWideProcessError as error:
            raise ClusterError(f"the cluster did not start: {error}") from None

    def stop(self) -> None:
        """Stop the cluster if it was started, wait for its end, and remove its directory. Only the owner calls it."""
        self._process().stop()

    def _process(self) -> RunWideProcess:
        return RunWideProcess(self.directory, self.owner, ("cluster", str(self.directory), "--audit"))
