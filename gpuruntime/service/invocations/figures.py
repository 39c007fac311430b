"""What the API counts of invocations, and its metrics."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.metrics import Histogram
from gpuruntime.service.errors import (
    InvocationConflictError,
    PayloadTooLargeError,
    QueueLimitError,
    QueueUnavailableError,
    ResultExpiredError,
    ResultStorageFullError,
    ServiceError,
)

__all__ = ["AcceptCollector", "AcceptFigures"]

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES: Final = (20.0, 40.0, 80.0, 120.0, 160.0, 200.0)
_REFUSALS: Final = (
    InvocationConflictError,
    PayloadTooLargeError,
    QueueLimitError,
    QueueUnavailableError,
    ResultExpiredError,
    ResultStorageFullError,
)


class AcceptFigures:
    """Counters of one process. Every reason has its series from the start."""

    __slots__ = ("batches", "cancelled", "durations", "expired", "refused")

    def __init__(self) -> None:
        self.durations = {False: Histogram(_SECONDS), True: Histogram(_SECONDS)}
        """By whether the invocation was a duplicate."""
        self.refused: Counter[str] = Counter({kind.code: 0 for kind in _REFUSALS})
        self.batches = Histogram(_SIZES)
        self.cancelled = 0
        self.expired = 0

    def accepted(self, seconds: float, *, is_duplicate: bool) -> None:
        """Count an accepted invocation."""
        self.durations[is_duplicate].observe(seconds)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a refusal that is raised in the block."""
        try:
            yield
        except ServiceError as error:
            self.refused[error.code] += 1
            raise


class AcceptCollector(Collector):
    """Exports the figures to a registry."""

    def __init__(self, registry: CollectorRegistry, figures: AcceptFigures) -> None:
        self._figures = figures
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        figures = self._figures
        accepted = HistogramMetricFamily(
            "gpuruntime_invocation_accept_seconds",
            "Time until an invocation was stored by NATS, in seconds, by whether it was accepted before (duplicate).",
            labels=("duplicate",),
        )
        for is_duplicate, durations in figures.durations.items():
            accepted.add_metric((str(is_duplicate).lower(),), durations.cumulative(), durations.total)
        refused = CounterMetricFamily(
            "gpuruntime_invocations_refused",
            "Invocations that were not accepted, by the code of the error.",
            labels=("code",),
        )
        for code, number in figures.refused.items():
            refused.add_metric((code,), number)
        batches = HistogramMetricFamily(
            "gpuruntime_invocation_batch_size",
            "Invocations that were stored together, in one atomic batch; those that were stored alone are not counted.",
            labels=(),
        )
        batches.add_metric((), figures.batches.cumulative(), figures.batches.total)
        ended = CounterMetricFamily(
            "gpuruntime_invocations_ended_by_api",
            "Invocations that this process ended, by state: cancelled by a caller, or expired when they were read.",
            labels=("state",),
        )
        ended.add_metric(("cancelled",), figures.cancelled)
        ended.add_metric(("expired",), figures.expired)
        return accepted, refused, batches, ended
