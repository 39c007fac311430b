"""The archive for callers in the process of its store."""

from collections.abc import Callable
from datetime import datetime

from attrs import frozen

from gpuruntime.api.invocations import (
    ArchivedInvocation,
    ArchivePage,
    ArchiveQuery,
    ArchiveUnavailableError,
    InvocationKey,
)
from gpuruntime.archive.store import ResultStore, StoreError

__all__ = ["StoreArchive"]


@frozen
class StoreArchive:
    """What the result store answers, see `gpuruntime.api.invocations.Archive`. `now` decides what has expired."""

    store: ResultStore
    now: Callable[[], datetime]

    async def get(self, key: InvocationKey) -> ArchivedInvocation | None:
        try:
            row = await self.store.get(key)
        except StoreError as error:
            raise ArchiveUnavailableError(str(error)) from error
        return None if row is None else row.view(self.now())

    async def body(self, key: InvocationKey) -> bytes | None:
        try:
            return await self.store.body(key, self.now())
        except StoreError as error:
            raise ArchiveUnavailableError(str(error)) from error

    async def list(self, query: ArchiveQuery) -> ArchivePage:
        try:
            page = await self.store.list(query)
        except StoreError as error:
            raise ArchiveUnavailableError(str(error)) from error
        now = self.now()
        return ArchivePage(tuple(row.view(now) for row in page.items), page.next)
