"""The archive in a manager: its store, what fills and expires it, and its metrics."""

import asyncio
from datetime import UTC, datetime

from gpuruntime.api.invocations import Archive
from gpuruntime.archive.consumer import ResultConsumer
from gpuruntime.archive.figures import ArchiveCollector, ArchiveFigures
from gpuruntime.archive.lag import ArchiveLag
from gpuruntime.archive.reading import StoreArchive
from gpuruntime.archive.sqlite import SqliteOptions, SqliteStore
from gpuruntime.archive.upkeep import Expiry, LagWatch
from gpuruntime.bus import Bus
from gpuruntime.control import Manager
from gpuruntime.processes.config.database_section import DatabaseSection

__all__ = ["install_archive"]


def install_archive(manager: Manager, bus: Bus | None, config: DatabaseSection) -> Archive | None:
    """The archive of a process, which runs with the manager; None if no file is configured.

    Without a bus it answers from its database, and archives nothing. Neither NATS nor the database ends the process:
    metrics and the log say what is wrong.
    """
    if config.file is None:
        return None
    clock = asyncio.get_running_loop().time
    store = SqliteStore(config.file, SqliteOptions(largest_bytes=config.largest_bytes))
    figures = ArchiveFigures(ArchiveLag(clock()))
    ArchiveCollector(manager.observability.registry, figures, clock)
    if bus is not None:
        manager.add(ResultConsumer(bus, store, figures).run, "archive", group="always")
        manager.add(LagWatch(bus, figures).run, "archive lag", group="always")
    manager.add(Expiry(store, figures, config.kept_rows, _now).run, "archive expiry", group="always")
    manager.add(lambda: _close_at_the_end(store), "archive database", group="http")
    return StoreArchive(store, _now)


async def _close_at_the_end(store: SqliteStore) -> None:
    """Close the store when all that uses it has stopped: group "http" is the last to stop."""
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await store.close()


def _now() -> datetime:
    return datetime.now(UTC)
