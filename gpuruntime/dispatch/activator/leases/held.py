"""The runs of all workers that are connected to this activator, by invocation."""

from collections.abc import Iterator

from gpuruntime.api.invocations import InvocationKey
from gpuruntime.dispatch.activator.workers.worker import HeldRun

__all__ = ["HeldRuns"]


class HeldRuns:
    """Answers who has an invocation: at most one run of this activator, and only while its worker is connected."""

    def __init__(self) -> None:
        self._runs: dict[InvocationKey, HeldRun] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[HeldRun]:
        return iter(tuple(self._runs.values()))

    def get(self, key: InvocationKey) -> HeldRun | None:
        return self._runs.get(key)

    def add(self, run: HeldRun) -> None:
        """Hold a run. One that another worker holds is replaced: the newer lease counts."""
        self._runs[run.lease.key] = run

    def remove(self, run: HeldRun) -> None:
        """Hold it no more."""
        if self._runs.get(run.lease.key) is run:
            del self._runs[run.lease.key]
