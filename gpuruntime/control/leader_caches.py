"""Caches at the start of a leadership term: synced, and no older than the last leader's writes."""

import asyncio
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from gpuruntime.control.informers.consistent_read import wait_for_consistent_read
from gpuruntime.control.informers.informer import Informer
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.transport.middleware import Wire

__all__ = ["LeaderCaches"]

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS: Final = 1.0


class LeaderCaches:
    """Brings informers up to date during an `async with` block, each informer once.

    Guarantees:
        Only callers that name an informer wait for it: an informer that never syncs delays no one else.
    """

    def __init__(self, wire: Wire, *, compared: bool) -> None:
        """Without `compared` a synced store is enough, because there was no leader before us."""
        self._wire = wire
        self._compared = compared
        self._tasks: dict[Informer[Any], asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def ready(self, informers: Sequence[Informer[Any]]) -> None:
        """Wait until each of these informers holds the server's state of the start of the block, or a newer one."""
        for informer in informers:
            if informer not in self._tasks:
                name = f"catching up with {informer.scope.storage.kind}"
                self._tasks[informer] = asyncio.create_task(self._bring_up(informer), name=name)
        for informer in informers:
            # The task is shared: cancelling one waiter must not cancel it for the others.
            await asyncio.shield(self._tasks[informer])

    async def _bring_up(self, informer: Informer[Any]) -> None:
        await informer.store_synced()
        while self._compared:
            try:
                await wait_for_consistent_read(informer, self._wire)
            except KubeError as error:
                about = {"kind": str(informer.scope.storage.kind), "error": str(error)}
                _LOG.warning("cannot compare cache with server, retrying", extra=about)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return
