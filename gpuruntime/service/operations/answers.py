"""The answer to an Operation, wherever it shows first: a duplicate waits for that and for nothing after it.

::

    work ──> outcome ──> answer ──> what is left: the stock unit goes, the Operation ends, its request is dropped
                 │
                 ├── an active unit was made: it bears the Operation's UID, and every replica sees it (`Trace`)
                 └── anything else: the result is written into the Operation before the answer is given

Who dies where, and what a duplicate on another replica hears then:

    before the work is done     the first caller heard nothing. The duplicate waits until a replica takes the Operation
                                over, and hears what comes of that
    after the work, before      an active unit: its answer at once. Anything else: what the replica finds that takes the
    the answer                  Operation over, which is the same
    after the answer            the same answer, at once. What is left is done by the replica that takes over, or by the
                                reaper of claims
    never, but the first is     the same answer, at once
    held up in what is left
    never, and nothing came     the Operation is gone: the duplicate is carried out as if it were the first
    of it
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

__all__ = ["Answers", "Trace"]

K = TypeVar("K", bound=TypedObject)
T = TypeVar("T")
_Class = type[K]


@frozen
class Trace(Generic[K]):
    """How the answer to operations of one type shows in what they make.

    Args:
        key: where an operation makes it; None if that cannot be read from the request.
        result: the answer to an operation that an object of this key shows; None if it shows none.
    """

    type: str
    kind: _Class[K]
    informer: Informer[K]
    key: Callable[[Operation], ObjectKey | None]
    result: Callable[[Operation, K], OperationResult | None]

    def seen(self, operation: Operation) -> OperationResult | None:
        """The answer by the cache."""
        key = self.key(operation)
        made = None if key is None else _readable(self.informer, key)
        return None if made is None else self.result(operation, made)

    async def read(self, client: Client, operation: Operation) -> OperationResult | None:
        """The answer by the server."""
        key = self.key(operation)
        if key is None:
            return None
        try:
            return self.result(operation, await client.get(self.kind, key.name, key.namespace))
        except NotFoundError:
            return None


@frozen
class Answers:
    """Finds the answers to Operations that other processes work on, or did."""

    records: Informer[Operation]
    traces: Mapping[str, Trace[Any]] = field(factory=dict)

    def known(self, operation: Operation) -> OperationResult | None:
        """The answer, if the Operation or the caches show it."""
        if operation.status.result is not None:
            return operation.status.result
        current = _readable(self.records, operation.key)
        if current is not None and current.metadata.uid == operation.metadata.uid and current.status.result is not None:
            return current.status.result
        trace = self.traces.get(operation.spec.type)
        return None if trace is None else trace.seen(operation)

    async def completed(self, client: Client, operation: Operation) -> Operation:
        """The Operation with its answer, if the server shows what was made."""
        trace = self.traces.get(operation.spec.type)
        if trace is None or operation.status.result is not None:
            return operation
        return evolve(operation, status=evolve(operation.status, result=await trace.read(client, operation)))

    async def news(self, operation: Operation, within: float) -> None:
        """Returns when the caches come to show the answer, or that the Operation is gone; at the latest after so many
        seconds.
        """
        heard = asyncio.Event()
        uid, trace = operation.metadata.uid, self.traces.get(operation.spec.type)

        def of_record(change: Change[Operation]) -> None:
            current = change.after
            if current is not None and current.metadata.uid == uid:
                is_news = current.status.result is not None or has_ended(current)
            else:
                # What the cache shows at first may be an Operation of the same name that is long gone.
                is_news = not change.initial
            if is_news:
                heard.set()

        def of_trace(change: Change[Any]) -> None:
            if trace is not None and change.after is not None and trace.result(operation, change.after) is not None:
                heard.set()

        with suppress(TimeoutError):
            async with asyncio.timeout(within), AsyncExitStack() as listening:
                await listening.enter_async_context(_listening(self.records, of_record, operation.key))
                if trace is not None and (key := trace.key(operation)) is not None:
                    await listening.enter_async_context(_listening(trace.informer, of_trace, key))
                await heard.wait()


def _readable(informer: Informer[T], key: ObjectKey) -> T | None:
    try:
        return informer.store.get(key)
    except QuarantinedError:
        return None


@asynccontextmanager
async def _listening(
    informer: Informer[T], handler: Callable[[Change[T]], None], key: ObjectKey
) -> AsyncIterator[None]:
    await informer.subscribe(handler, key)
    try:
        yield
    finally:
        informer.unsubscribe(handler, key)
