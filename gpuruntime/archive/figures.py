"""What the archive counts, and its metrics."""

from collections.abc import Callable, Iterable

from attrs import define, field
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.archive.lag import ArchiveLag
from gpuruntime.archive.store import StoreSize
from gpuruntime.bus import AccountInfo

__all__ = ["ArchiveCollector", "ArchiveFigures"]


@define
class ArchiveFigures:
    """Counts of one process. `pending` and `account` are None until NATS has said what waits, and what it holds."""

    lag: ArchiveLag
    archived: int = 0
    malformed: int = 0
    failures: int = 0
    expired_bodies: int = 0
    expired_rows: int = 0
    pending: int | None = None
    size: StoreSize | None = None
    account: AccountInfo | None = None
    problem: str = field(default="")
    """Why results are not archived now; "" if they are."""

    def fail(self, problem: str) -> bool:
        """Count a failed attempt; returns whether the problem is a new one."""
        is_new, self.problem = problem != self.problem, problem
        self.failures += 1
        return is_new

    def succeed(self, archived: int, malformed: int) -> None:
        """Count a batch."""
        self.archived += archived
        self.malformed += malformed
        self.problem = ""


class ArchiveCollector(Collector):
    """Exports the figures of the archive to a registry. `clock` is that of its lag."""

    def __init__(self, registry: CollectorRegistry, figures: ArchiveFigures, clock: Callable[[], float]) -> None:
        self._figures = figures
        self._clock = clock
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        figures = self._figures
        yield CounterMetricFamily(
            "gpuruntime_archive_results", "Results that were written to the result store.", figures.archived
        )
        yield CounterMetricFamily(
            "gpuruntime_archive_malformed_results",
            "Messages of RESULTS that cannot be read and were left out: another program wrote them.",
            figures.malformed,
        )
        yield CounterMetricFamily(
            "gpuruntime_archive_failures",
            "Attempts to archive that failed: the database, or the stream of results, cannot be used.",
            figures.failures,
        )
        expired = CounterMetricFamily(
            "gpuruntime_archive_expired",
            "What expired and was deleted, bodies or rows.",
            labels=("part",),
        )
        expired.add_metric(("body",), figures.expired_bodies)
        expired.add_metric(("row",), figures.expired_rows)
        yield expired
        yield GaugeMetricFamily(
            "gpuruntime_archive_lag_seconds",
            "Age of the last look at RESULTS whose results are all archived by now.",
            figures.lag.seconds(self._clock()),
        )
        if figures.pending is not None:
            yield GaugeMetricFamily(
                "gpuruntime_archive_pending_results", "Results that wait to be archived.", figures.pending
            )
        if figures.account is not None:
            yield from _storage(figures.account)
        if figures.size is not None:
            yield GaugeMetricFamily("gpuruntime_archive_bytes", "Size of the database.", figures.size.bytes)
            yield GaugeMetricFamily(
                "gpuruntime_archive_free_bytes",
                "The part of the database that holds nothing, and is used before it grows.",
                figures.size.free_bytes,
            )


def _storage(account: AccountInfo) -> Iterable[Metric]:
    yield GaugeMetricFamily("gpuruntime_nats_storage_bytes", "What all streams of NATS have on disk.", account.storage)
    if account.max_storage > 0:
        yield GaugeMetricFamily(
            "gpuruntime_nats_storage_limit_bytes",
            "The most that they may have, by the limits of the account of NATS; absent if it has none.",
            account.max_storage,
        )
