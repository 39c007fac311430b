"""A controller: keys from its sources, a queue, workers that reconcile, and what follows from each run."""

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
from gpuruntime.control.controllers.reconcile import Cause, Context, Reconciler, Result
from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters, ReconcileResult
from gpuruntime.control.controllers.sources import Source
from gpuruntime.control.controllers.usage import check_answer, check_reads, check_reconciler, check_source
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.store import reading_controller
from gpuruntime.control.option_checks import above_zero, at_least_one, not_negative
from gpuruntime.control.queueing.rate_limits import RateLimits
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
"""What that run has said about itself, for log lines."""


class ReconcileTimeoutError(Exception):
    """A run took longer than it may, and was cancelled."""


@frozen
class ControllerOptions:
    """How a controller works.

    `seconds` is what a run may take before it is cancelled; `grace` is what runs under way get to end when the
    controller is told to stop. `parse_key` makes a key of a text, for the debug pages. It says of which type keys are:
    a class, a class method of it, or a function with an annotation. A source that names a key of another type fails.
    """

    concurrency: int = field(default=1, validator=at_least_one)
    seconds: float = field(default=120.0, validator=above_zero)
    grace: float = field(default=10.0, validator=not_negative)
    limits: RateLimits = field(factory=RateLimits)
    parse_key: Callable[[str], Any] = ObjectKey.parse


class Controller(Generic[K]):
    """Runs a reconciler for every key that its sources name.

    Guarantees:
        - The first run starts when the informers of its sources, and those that it reads, are complete, and all that
          its sources hold was turned into keys, but for what a trigger raises on. It waits for no others.
        - Never two runs of one key at a time; a key named during its run is run once more.
        - A run sees what the last run of its key wrote (see `Freshness`).
        - A run that takes too long is cancelled. One that raises is tried again by the rules of `error_policy`; the
          backoff of a key is reset only by a run without an error, and by a terminal one.
        - A run that fails, whatever it raises, harms no other key.
        - On cancellation no run is started any more, those under way get `grace` seconds, then they are cancelled.
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
            TypeError: the reconciler or a source is none; the message says what to do.
            RuntimeError: there is no running event loop.
        """
        check_reconciler(reconciler)
        self.name = name
        self.sources = tuple(sources)
        for source in self.sources:
            check_source(source)
        if len({id(source) for source in self.sources}) < len(self.sources):
            raise ValueError(f"controller {name!r}: expected each source once, got one twice: make one for each watch")
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
        """What its sources watch, and what it reads besides."""
        watched = (informer for source in self.sources for informer in source.informers)
        return tuple(dict.fromkeys((*watched, *self._reads)))

    async def run(self) -> None:
        """Work until cancelled; may be called again after that, with an empty queue.

        Raises:
            RuntimeError: it runs already, was made in another event loop, or has a source that feeds another one.
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
        """How often a trigger, a predicate or the keys of a timer raised."""
        return sum(getattr(source, "failures", 0) for source in self.sources)

    @property
    def source_retries(self) -> int:
        """How many changes, and how many timers, wait to be tried again because of that."""
        return sum(getattr(source, "retrying", 0) for source in self.sources)

    @property
    def source_troubles(self) -> tuple[str, ...]:
        """What sources that follow no informer fail at; those of informers are with the informer."""
        return tuple(trouble for source in self.sources if (trouble := getattr(source, "trouble", "")))

    def _check_free(self) -> None:
        require_same_loop(f"controller {self.name!r}", self._loop)
        if self._is_running:
            raise RuntimeError(f"controller {self.name!r} runs already: one run at a time; cancel that one first")
        if any(getattr(source, "is_feeding", False) for source in self.sources):
            raise RuntimeError(
                f"a source of controller {self.name!r} feeds another controller: make one for each; watches of one"
                " informer share its store"
            )

    def _new_queue(self) -> WorkQueue[K]:
        return WorkQueue(self.name, limits=self.options.limits, key_type=key_type_of(self.parse_key))

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
                _LOG.warning("runs cut off at the end of the grace", extra={"controller": self.name, "keys": str(late)})
            raise
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _worker(self) -> None:
        while True:
            try:
                turn = await self.queue.get_with_causes()
            except QueueClosedError:
                return
            self.counters.active_workers += 1
            try:
                await self._run(turn)
            finally:
                self.counters.active_workers -= 1
                self.queue.done(turn.key)
            # Runs that find nothing to do never wait: thousands in a row, as when a leader starts, would leave no time
            # for the renewal of its lease.
            await asyncio.sleep(0)

    async def _run(self, turn: WorkItem[K]) -> None:
        loop, worker = asyncio.get_running_loop(), asyncio.current_task()
        started = loop.time()
        causes = tuple(cause for cause in turn.causes if isinstance(cause, Cause))
        context = Context(self.name, uuid.uuid4().hex[:12], turn.attempt, causes, turn.waited, started)
        token = current_context.set((self.name, str(turn.key), context.reconcile_id))
        fields, reading = run_fields.set({}), reading_controller.set(self.name)
        outcome: ReconcileResult = "error"
        try:
            result = await self._reconcile(turn.key, context)
            if not isinstance(result, Result):
                raise TypeError(_wrong_result(result))  # noqa: TRY301 - handled like any other failure
        except asyncio.CancelledError:
            if worker is None or worker.cancelling():
                raise
            # It is not us who were cancelled, but something that the reconciler waited for.
            self._failed(turn, RuntimeError("the reconciler awaited something that was cancelled"))
        except BaseException as error:
            # One key's failure must not end the controller, whatever its type.
            if _ends_worker(error, worker, loop):
                raise
            self._failed(turn, error)
        else:
            outcome = self._succeeded(turn, result)
        finally:
            reading_controller.reset(reading)
            run_fields.reset(fields)
            current_context.reset(token)
            self.counters.finished(outcome, loop.time() - started)

    async def _reconcile(self, key: K, context: Context) -> Result:
        limit = asyncio.timeout(self.options.seconds)
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
            raise ReconcileTimeoutError(f"cancelled after {self.options.seconds:g} s") from error

    def _begun(self, key: K, context: Context) -> Awaitable[Result]:
        run = self._reconciler.reconcile(key, context)
        if type(run) is not CoroutineType:
            check_answer(run, self._reconciler.reconcile)
        return run

    def _succeeded(self, turn: WorkItem[K], result: Result) -> ReconcileResult:
        self.queue.forget(turn.key)
        if result.seconds is None:
            return "success"
        self.queue.add_after(turn.key, result.seconds, priority=turn.priority)
        return "requeue_after"

    def _failed(self, turn: WorkItem[K], error: BaseException) -> None:
        decision = decide(error)
        fields = {"verdict": decision.verdict, "attempt": turn.attempt, "error": f"{type(error).__name__}: {error}"}
        if decision.verdict == "conflict":
            self.counters.conflicts += 1
            _LOG.info("reconcile met a conflict", extra=fields)
        else:
            _LOG.error("reconcile failed", extra=fields, exc_info=None if is_expected(error) else error)
        if isinstance(error, HotLoopError):
            self.counters.fights += 1
        if decision.verdict == "terminal":
            self.counters.terminal_errors += 1
            self.queue.forget(turn.key)
        elif decision.verdict == "wait":
            self.queue.add_after(turn.key, decision.seconds, priority=turn.priority)
        else:
            self.queue.add_rate_limited(turn.key, priority=turn.priority)


def _ends_worker(error: BaseException, worker: asyncio.Task[Any] | None, loop: asyncio.AbstractEventLoop) -> bool:
    """Whether an error is not the run's own: the program is to end, or the worker's coroutine is being closed."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup((KeyboardInterrupt, SystemExit)) is not None
    if isinstance(error, GeneratorExit):
        # Closed from outside of the worker's own steps, by the garbage collector say.
        return asyncio.current_task(loop) is not worker
    return isinstance(error, KeyboardInterrupt | SystemExit)


def _wrong_result(result: object) -> str:
    hint = ""
    if result is None:
        hint = ": a path through it ends without return"
    elif isinstance(result, CoroutineType):
        result.close()
        hint = ": await what it calls"
    elif result is Result:
        hint = ": call one of the two"
    return f"a reconciler must return Result.done() or Result.after(...), got {result!r}{hint}"
