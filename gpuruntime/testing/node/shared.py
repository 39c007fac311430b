"""One real node for a whole test run, in the cluster of the run."""

from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from attrs import frozen

from gpuruntime.testing.cluster.local import ClusterError
from gpuruntime.testing.cluster.shared import SharedCluster
from gpuruntime.testing.processes.run_wide import RunWideProcess, RunWideProcessError
from gpuruntime.testing.published_files import publish, read_published

__all__ = ["SHARED_GPUS", "SHARED_KUBELET", "NodeAccess", "SharedNode"]

_FILE = "node.json"
SHARED_GPUS: Final = 4
# A crash loop takes seconds: with the usual back-off its third restart would come after a minute.
SHARED_KUBELET: Final[dict[str, Any]] = {"crashLoopBackOff": {"maxContainerRestartPeriod": "5s"}}


@frozen
class NodeAccess:
    """The name of a running real node, and the directory of its images."""

    name: str
    images: Path

    def save(self, directory: Path) -> None:
        """Write it to `directory` atomically: a reader finds nothing or everything."""
        publish(directory / _FILE, {"name": self.name, "images": str(self.images)})

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        """The node that runs in `directory`, or None."""
        fields = read_published(directory / _FILE)
        return None if fields is None else cls(fields["name"], Path(fields["images"]))

    @staticmethod
    def withdraw(directory: Path) -> None:
        """Remove the saved access, because the node stops."""
        (directory / _FILE).unlink(missing_ok=True)


@frozen
class SharedNode:
    """The real node of a test run. Each process of the run has an equal value.

    It joins the run's cluster when the first test asks for it, and stops before the cluster does.
    """

    cluster: SharedCluster

    @property
    def directory(self) -> Path:
        """Its directory, beside that of the cluster: each is removed by its own process."""
        return self.cluster.directory.with_name(f"{self.cluster.directory.name}-node")

    def start(self) -> NodeAccess:
        """Return the running node, starting the cluster and it if necessary.

        Raises:
            ClusterError: the cluster or the node did not start.
        """
        self.cluster.start()
        try:
            return self._process().start(partial(NodeAccess.load, self.directory))
        except RunWideProcessError as error:
            raise ClusterError(f"the real node did not start: {error}") from None

    def stop(self) -> None:
        """Stop the node if it was started, wait for its end, and remove its directory. Only the owner calls it."""
        self._process().stop()

    def _process(self) -> RunWideProcess:
        arguments = ("node", str(self.directory), "--cluster", str(self.cluster.directory))
        return RunWideProcess(self.directory, self.cluster.owner, arguments)
