"""A controller: keys from its sources, a queue, workers that reconcile, and what follows from each run."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import ContextVar
from types import CoroutineType
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from gpuruntime.control.controllers.error_policy import decide, is_expected
from gpuruntime.control.controllers.freshness import Freshness
from gpuruntime.control.controllers.reconcile import Cause, Context, Reconciler, Result
from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters, ReconcileResult
from gpuruntime.control.controllers.sources import Source
from gpuruntime.control.controllers.usage import check_answer, check_loop, check_reconciler, check_source
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.queueing.queue_item import Turn
from gpuruntime.control.queueing.rate_limits import RateLimits
from gpuruntime.control.queueing.workqueue import QueueClosedError, WorkQueue
from gpuruntime.control.writing.fights import FightError
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
    controller is told to stop.
    """

    concurrency: int = 1
    seconds: float = 120.0
    grace: float = 10.0
    limits: RateLimits = field(factory=RateLimits)
    parse_key: Callable[[str], Any] = ObjectKey.parse


class Controller(Generic[K]):
    """Runs a reconciler for every key that its sources name.

    Guarantees:
        - The first run starts when every source's informers are complete and all they hold was turned into keys.
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
    ) -> None:
        """Prepare a controller; without `freshness`, runs may miss what earlier ones wrote.

        Raises:
            TypeError: the reconciler or a source is none; the message says what to do.
            RuntimeError: there is no running event loop.
        """
        check_reconciler(reconciler)
        self.name = name
        self.sources = tuple(sources)
        for source in self.sources:
            check_source(source)
        check_loop()
        self.options = options or ControllerOptions()
        self.counters = ReconcileCounters(self.options.concurrency)
        self.queue = self._new_queue()
        self._ran = False
        self.parse_key = self.options.parse_key
        self._reconciler = reconciler
        self._freshness = freshness

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """What its sources watch."""
        return tuple(dict.fromkeys(informer for source in self.sources for informer in source.informers))

    async def run(self) -> None:
        """Work until cancelled; may be called again after that, with an empty queue."""
        if self._ran:
            self.queue = self._new_queue()
        self._ran = True
        try:
            for source in self.sources:
                await source.prepare(self.queue)
            for informer in self.informers:
                await informer.synced()
            async with asyncio.TaskGroup() as feeding:
                for source in self.sources:
                    feeding.create_task(source.run(self.queue), name=f"source of {self.name}")
                await self._work()
        finally:
            for source in self.sources:
                source.close()

    def _new_queue(self) -> WorkQueue[K]:
        return WorkQueue(self.name, limits=self.options.limits)

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

    async def _run(self, turn: Turn[K]) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        causes = tuple(cause for cause in turn.causes if isinstance(cause, Cause))
        context = Context(self.name, uuid.uuid4().hex[:12], turn.attempt, causes, turn.waited, started)
        token = current_context.set((self.name, str(turn.key), context.reconcile_id))
        fields = run_fields.set({})
        outcome: ReconcileResult = "error"
        try:
            result = await self._reconcile(turn.key, context)
            if not isinstance(result, Result):
                raise TypeError(_wrong_result(result))  # noqa: TRY301 - handled like any other failure
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # It is not us who were cancelled, but something that the reconciler waited for.
            self._failed(turn, RuntimeError("the reconciler awaited something that was cancelled"))
        except Exception as error:  # noqa: BLE001 - one key's failure must not end the controller
            self._failed(turn, error)
        else:
            outcome = self._succeeded(turn, result)
        finally:
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

    def _succeeded(self, turn: Turn[K], result: Result) -> ReconcileResult:
        self.queue.forget(turn.key)
        if result.seconds is None:
            return "success"
        self.queue.add_after(turn.key, result.seconds, priority=turn.priority)
        return "requeue_after"

    def _failed(self, turn: Turn[K], error: Exception) -> None:
        decision = decide(error)
        fields = {"verdict": decision.verdict, "attempt": turn.attempt, "error": f"{type(error).__name__}: {error}"}
        if decision.verdict == "conflict":
            self.counters.conflicts += 1
            _LOG.info("reconcile met a conflict", extra=fields)
        else:
            _LOG.error("reconcile failed", extra=fields, exc_info=None if is_expected(error) else error)
        if isinstance(error, FightError):
            self.counters.fights += 1
        if decision.verdict == "terminal":
            self.counters.terminal_errors += 1
            self.queue.forget(turn.key)
        elif decision.verdict == "wait":
            self.queue.add_after(turn.key, decision.seconds, priority=turn.priority)
        else:
            self.queue.add_rate_limited(turn.key, priority=turn.priority)


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
