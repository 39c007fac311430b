"""Invocations in the process of an API: the use cases, what runs for them, and their metrics."""

from gpuruntime.api.invocations import Archive
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.bus import Bus
from gpuruntime.control import Manager
from gpuruntime.processes.config.result_store_section import ResultStoreSection
from gpuruntime.service.invocations.archive_client import ArchiveClient
from gpuruntime.service.invocations.figures import AcceptCollector, AcceptFigures
from gpuruntime.service.invocations.functions import Functions, watch_functions
from gpuruntime.service.invocations.use_cases import InvocationService, QueueUseCases

__all__ = ["install_archive_client", "install_invocations"]


def install_archive_client(manager: Manager, config: ResultStoreSection) -> Archive | None:
    """The archive of another process, whose connections close with the manager; None if it is not configured."""
    if config.options is None:
        return None
    client = ArchiveClient(config.options)
    manager.add(client.run, "connections of the result store", group="http")
    return client


def install_invocations(
    manager: Manager, namespaces: Namespaces, bus: Bus | None, archive: Archive | None
) -> InvocationService:
    """Let the process of a manager accept and show invocations. Without a bus they are refused with 503."""
    functions = Functions(watch_functions(manager.cache, namespaces), namespaces.instance)
    figures = AcceptFigures()
    AcceptCollector(manager.observability.registry, figures)
    if bus is None:
        return InvocationService(functions, None, archive)
    queue = QueueUseCases.of(bus, functions, archive, figures)
    manager.add(queue.writer.run, "group commit", group="always")
    return InvocationService(functions, queue, archive)
