"""Results of Operations, wherever they appear first: a duplicate request waits for the result and for nothing later.

::

    work ──> outcome ──> response ──> cleanup: the stock unit is deleted, the Operation ends, its request is dropped
                 │
                 ├── an active unit was created: it carries the Operation's UID, and every replica sees it (`Evidence`)
                 └── anything else: the result is stored in the Operation before the response is sent

If a replica dies, what a duplicate on another replica receives:

    before the work is done     the first caller received nothing. The duplicate waits until a replica takes the
                                Operation over, and receives its result
    after the work, before      for an active unit the same response, at once. For anything else what the replica finds
    the response                that takes the Operation over, which is the same
    after the response          the same response, at once. The cleanup is done by the replica that takes over, or by
                                the claim reconciler

If no replica dies:

    the cleanup is slow         the same response, at once
    the request was refused     the Operation is gone: the duplicate is executed as if it were the first
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Generic, TypeVar

from attrs import evolve, field, frozen

from gpuruntime.api.operation import Operation, OperationResult
from gpuruntime.control import Change, Informer, QuarantinedError
from gpuruntime.kube import Client, NotFoundError
from gpuruntime.meta import ObjectKey, TypedObject
from gpuruntime.service.operations.record import has_ended

__all__ = ["Evidence", "OperationResults"]

K = TypeVar("K", bound=TypedObject)
T = TypeVar("T")
_Class = type[K]


@frozen
class Evidence(Generic[K]):
    """Derives the result of Operations of one type from the object that they create.

    Args:
        key: the key of the object that an Operation creates; None if its request cannot be read.
        result: the result of an Operation that this object proves; None if it proves none.
    """

    type: str
    kind: _Class[K]
    informer: Informer[K]
    key: Callable[[Operation], ObjectKey | None]
    result: Callable[[Operation, K], OperationResult | None]

    def cached(self, operation: Operation) -> OperationResult | None:
        """The result by the cache."""
        key = self.key(operation)
        made = None if key is None else _readable(self.informer, key)
        return None if made is None else self.result(operation, made)

    async def live(self, client: Client, operation: Operation) -> OperationResult | None:
        """The result by a live read."""
        key = self.key(operation)
        if key is None:
            return None
        try:
            return self.result(operation, await client.get(self.kind, key.name, key.namespace))
        except NotFoundError:
            return None


@frozen
class OperationResults:
    """Finds the results of Operations that other processes work on, or worked on."""

    records: Informer[Operation]
    evidence: Mapping[str, Evidence[Any]] = field(factory=dict)

    def known(self, operation: Operation) -> OperationResult | None:
        """The result, if this Operation or a cache shows it."""
        if operation.status.result is not None:
            return operation.status.result
        current = _readable(self.records, operation.key)
        if current is not None and current.metadata.uid == operation.metadata.uid and current.status.result is not None:
            return current.status.result
        evidence = self.evidence.get(operation.spec.type)
        return None if evidence is None else evidence.cached(operation)

    async def completed(self, client: Client, operation: Operation) -> Operation:
        """The Operation with its result, if a live read of the created object shows one."""
        evidence = self.evidence.get(operation.spec.type)
        if evidence is None or operation.status.result is not None:
            return operation
        return evolve(operation, status=evolve(operation.status, result=await evidence.live(client, operation)))

    async def wait(self, operation: Operation, within: float) -> None:
        """Return when the caches show the result or that the Operation is gone, or after `within` seconds."""
        changed = asyncio.Event()
        uid, evidence = operation.metadata.uid, self.evidence.get(operation.spec.type)

        def on_record(change: Change[Operation]) -> None:
            current = change.after
            if current is not None and current.metadata.uid == uid:
                is_over = current.status.result is not None or has_ended(current)
            else:
                # The initial list may show an earlier Operation of the same name that is long gone.
                is_over = not change.initial
            if is_over:
                changed.set()

        def on_object(change: Change[Any]) -> None:
            if (
                evidence is not None
                and change.after is not None
                and evidence.result(operation, change.after) is not None
            ):
                changed.set()

        with suppress(TimeoutError):
            async with asyncio.timeout(within), AsyncExitStack() as subscriptions:
                await subscriptions.enter_async_context(_subscribed(self.records, on_record, operation.key))
                if evidence is not None and (key := evidence.key(operation)) is not None:
                    await subscriptions.enter_async_context(_subscribed(evidence.informer, on_object, key))
                await changed.wait()


def _readable(informer: Informer[T], key: ObjectKey) -> T | None:
    try:
        return informer.store.get(key)
    except QuarantinedError:
        return None


@asynccontextmanager
async def _subscribed(
    informer: Informer[T], handler: Callable[[Change[T]], None], key: ObjectKey
) -> AsyncIterator[None]:
    await informer.subscribe(handler, key)
    try:
        yield
    finally:
        informer.unsubscribe(handler, key)
