"""A controller: sources that enqueue keys, a work queue, workers that reconcile, and what follows from each run."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import ContextVar
from types import CoroutineType
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from gpuruntime.aio.loops import require_loop, require_same_loop
from gpuruntime.control.controllers.error_policy import decide, is_expected
from gpuruntime.control.controllers.freshness import Freshness
from gpuruntime.control.controllers.keys import key_type_of
from gpuruntime.control.controllers.reconcile import Cause, Reconciler, Result, RunInfo
from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters, ReconcileResult
from gpuruntime.control.controllers.sources import Source
from gpuruntime.control.controllers.usage import check_awaitable, check_reads, check_reconciler, check_source
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.store import reading_controller
from gpuruntime.control.option_checks import above_zero, at_least_one, not_negative
from gpuruntime.control.queueing.rate_limiter import RateLimiter
from gpuruntime.control.queueing.work_item import WorkItem
from gpuruntime.control.queueing.workqueue import QueueClosedError, WorkQueue
from gpuruntime.control.writing.hot_loops import HotLoopError
from gpuruntime.meta.identity import ObjectKey

__all__ = ["Controller", "ControllerOptions", "ReconcileTimeoutError", "current_context", "run_fields"]

_LOG = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)

current_context: ContextVar[tuple[str, str, str] | None] = ContextVar("gpuruntime_reconcile", default=None)
"""Controller, key and reconcile id of the run that the current task belongs to, for log lines."""
run_fields: ContextVar[dict[str, str] | None] = ContextVar("gpuruntime_run_fields", default=None)
"""Fields that this run added to its log lines."""


class ReconcileTimeoutError(Exception):
    """A run took longer than `reconcile_timeout`, and was cancelled."""


@frozen
class ControllerOptions:
    """How a controller works.

    Args:
        concurrency: how many keys are reconciled at a time.
        reconcile_timeout: seconds after which a run is cancelled.
        grace: seconds that runs get to end when the controller stops.
        rate_limiter: the backoff of a key whose runs fail.
        needs_leader_election: False runs the controller in every replica, whether it leads or not.
        parse_key: makes a key from text, for the debug pages, and defines the type of keys: a class, a class method of
            it, or a function with a return annotation. A source that enqueues a key of another type fails.
    """

    concurrency: int = field(default=1, validator=at_least_one)
    reconcile_timeout: float = field(default=120.0, validator=above_zero)
    grace: float = field(default=10.0, validator=not_negative)
    rate_limiter: RateLimiter = field(factory=RateLimiter)
    needs_leader_election: bool = True
    parse_key: Callable[[str], Any] = ObjectKey.parse


class Controller(Generic[K]):
    """Runs a reconciler for every key that its sources enqueue.

    Guarantees:
        - The first run starts when the informers of its sources, and those that it reads, are complete, and every
          object in them was mapped to keys, except where a trigger raises. It waits for no other informers.
        - Never two runs of one key at a time; a key that is enqueued during its run is run once more.
        - A run sees what the last run of its key wrote (see `Freshness`).
        - A run that exceeds `reconcile_timeout` is cancelled. One that raises is retried by the rules of
          `error_policy`; the backoff of a key is reset only by a run without an error, and by a terminal error.
        - A run that fails, whatever it raises, affects no other key.
        - On cancellation no run is started any more; those in progress get `grace` seconds, then they are cancelled.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler[K],
        sources: Sequence[Source[K]],
        *,
        options: ControllerOptions | None = None,
        freshness: Freshness | None = None,
        reads: Sequence[Informer[Any]] = (),
    ) -> None:
        """Prepare a controller; without `freshness`, runs may miss what earlier ones wrote. `reads` are informers whose
        stores the reconciler reads and that are no source.

        Raises:
            TypeError: not a reconciler, or not a source; the message says what to do.
            RuntimeError: there is no running event loop.
        """
        check_reconciler(reconciler)
        self.name = name
        self.sources = tuple(sources)
        for source in self.sources:
            check_source(source)
        if len({id(source) for source in self.sources}) < len(self.sources):
            raise ValueError(
                f"controller {name!r}: expected each source once, got one twice: create one for each watch"
            )
        check_reads(reads, f"controller {name!r}")
        self._loop = require_loop("a controller")
        self.options = options or ControllerOptions()
        self.counters = ReconcileCounters(self.options.concurrency)
        self.parse_key = self.options.parse_key
        self.queue = self._new_queue()
        self._ran = False
        self._is_running = False
        self._reads = tuple(reads)
        self._reconciler = reconciler
        self._freshness = freshness

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """The informers of its sources, and those that it reads."""
        watched = (informer for source in self.sources for informer in source.informers)
        return tuple(dict.fromkeys((*watched, *self._reads)))

    async def run(self) -> None:
        """Reconcile until cancelled; may be called again after that, with an empty queue.

        Raises:
            RuntimeError: it runs already, was created in another event loop, or has a source of another controller.
        """
        self._check_free()
        if self._ran:
            self.queue = self._new_queue()
        self._ran = self._is_running = True
        try:
            for source in self.sources:
                await source.prepare(self.queue)
            for informer in self.informers:
                await informer.synced()
            _LOG.info("controller started", extra={"controller": self.name})
            async with asyncio.TaskGroup() as feeding:
                for source in self.sources:
                    feeding.create_task(source.run(self.queue), name=f"source of {self.name}")
                await self._work()
        finally:
            self._is_running = False
            for source in self.sources:
                source.close()

    @property
    def source_failures(self) -> int:
        """Number of times that a trigger, a predicate or the keys of a timer raised."""
        return sum(getattr(source, "failures", 0) for source in self.sources)

    @property
    def source_retries(self) -> int:
        """Number of changes and timers that wait for a retry because of that."""
        return sum(getattr(source, "retrying", 0) for source in self.sources)

    @property
    def source_troubles(self) -> tuple[str, ...]:
        """Failures of sources that follow no informer; the others are in `Informer.failing`."""
        return tuple(trouble for source in self.sources if (trouble := getattr(source, "trouble", "")))

    def _check_free(self) -> None:
        require_same_loop(f"controller {self.name!r}", self._loop)
        if self._is_running:
            raise RuntimeError(f"controller {self.name!r} runs already: one run at a time; cancel that one first")
        if any(getattr(source, "is_feeding", False) for source in self.sources):
            raise RuntimeError(
                f"a source of controller {self.name!r} is used by another one: create one for each; watches of one"
                " informer share its store"
            )

    def _new_queue(self) -> WorkQueue[K]:
        return WorkQueue(self.name, rate_limiter=self.options.rate_limiter, key_type=key_type_of(self.parse_key))

    async def _work(self) -> None:
        workers = [
            asyncio.create_task(self._worker(), name=f"worker {number} of {self.name}")
            for number in range(self.options.concurrency)
        ]
        try:
            # Not gather: it would cancel the workers at once, and leave no grace.
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            for worker in done:
                worker.result()
        except asyncio.CancelledError:
            late = await self.queue.drain(self.options.grace)
            if late:
                _LOG.warning(
                    "reconciles cancelled at the end of the shutdown grace",
                    extra={"controller": self.name, "keys": str(late)},
                )
            raise
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _worker(self) -> None:
        while True:
            try:
                item = await self.queue.get_with_causes()
            except QueueClosedError:
                return
            self.counters.active_workers += 1
            try:
                await self._run(item)
            finally:
                self.counters.active_workers -= 1
                self.queue.done(item.key)
            # Runs that find nothing to do never yield: thousands in a row, as after an election, would delay the
            # renewal of the lease.
            await asyncio.sleep(0)

    async def _run(self, item: WorkItem[K]) -> None:
        loop, worker = asyncio.get_running_loop(), asyncio.current_task()
        started = loop.time()
        causes = tuple(cause for cause in item.causes if isinstance(cause, Cause))
        context = RunInfo(self.name, uuid.uuid4().hex[:12], item.attempt, causes, item.waited, started)
        token = current_context.set((self.name, str(item.key), context.reconcile_id))
        fields, reading = run_fields.set({}), reading_controller.set(self.name)
        outcome: ReconcileResult = "error"
        try:
            result = await self._reconcile(item.key, context)
            if not isinstance(result, Result):
                raise TypeError(_wrong_result(result))  # noqa: TRY301 - handled like any other failure
        except asyncio.CancelledError:
            if worker is None or worker.cancelling():
                raise
            # Not this worker was cancelled, but something that the reconciler awaited.
            self._failed(item, RuntimeError("the reconciler awaited something that was cancelled"))
        except BaseException as error:
            # One key's failure must not end the controller, whatever its type.
            if _ends_worker(error, worker, loop):
                raise
            self._failed(item, error)
        else:
            outcome = self._succeeded(item, result)
        finally:
            reading_controller.reset(reading)
            run_fields.reset(fields)
            current_context.reset(token)
            self.counters.finished(outcome, loop.time() - started)

    async def _reconcile(self, key: K, context: RunInfo) -> Result:
        limit = asyncio.timeout(self.options.reconcile_timeout)
        try:
            async with limit:
                if self._freshness is None:
                    return await self._begun(key, context)
                await self._freshness.settle(key, self.counters)
                with self._freshness.recording(key):
                    return await self._begun(key, context)
        except TimeoutError as error:
            if not limit.expired():
                raise  # a timeout of the reconciler's own
            self.counters.timeouts += 1
            raise ReconcileTimeoutError(f"cancelled after {self.options.reconcile_timeout:g} s") from error

    def _begun(self, key: K, context: RunInfo) -> Awaitable[Result]:
        run = self._reconciler.reconcile(key, context)
        check_awaitable(run, self._reconciler.reconcile)
        return run

    def _succeeded(self, item: WorkItem[K], result: Result) -> ReconcileResult:
        self.queue.forget(item.key)
        if result.seconds is None:
            return "success"
        self.queue.add_after(item.key, result.seconds, priority=item.priority)
        return "requeue_after"

    def _failed(self, item: WorkItem[K], error: BaseException) -> None:
        decision = decide(error)
        fields = {"verdict": decision.verdict, "attempt": item.attempt, "error": f"{type(error).__name__}: {error}"}
        if decision.verdict == "conflict":
            self.counters.conflicts += 1
            _LOG.info("reconcile conflict", extra=fields)
        else:
            _LOG.error("reconcile failed", extra=fields, exc_info=None if is_expected(error) else error)
        if isinstance(error, HotLoopError):
            self.counters.hot_loops += 1
        if decision.verdict == "terminal":
            self.counters.terminal_errors += 1
            self.queue.forget(item.key)
        elif decision.verdict == "wait":
            self.queue.add_after(item.key, decision.seconds, priority=item.priority)
        else:
            self.queue.add_rate_limited(item.key, priority=item.priority)


def _ends_worker(error: BaseException, worker: asyncio.Task[Any] | None, loop: asyncio.AbstractEventLoop) -> bool:
    """Whether an error is not the run's own: the process is to exit, or the worker's coroutine is being closed."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup((KeyboardInterrupt, SystemExit)) is not None
    if isinstance(error, GeneratorExit):
        # Closed from outside of the worker's own steps, for instance by the garbage collector.
        return asyncio.current_task(loop) is not worker
    return isinstance(error, KeyboardInterrupt | SystemExit)


def _wrong_result(result: object) -> str:
    hint = ""
    if result is None:
        hint = ": a path through it has no return"
    elif isinstance(result, CoroutineType):
        result.close()
        hint = ": await the coroutine"
    elif result is Result:
        hint = ": call one of the two"
    return f"a reconciler must return Result.done() or Result.after(...), got {result!r}{hint}"
