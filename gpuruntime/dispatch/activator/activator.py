"""The activator: workers on one side, NATS on the other, and nothing in between that matters when it dies."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from gpuruntime.api.invocations import InvocationKey, key_of_subject
from gpuruntime.bus import Bus, BusUnavailableError, Message
from gpuruntime.dispatch.activator.figures import DispatchFigures, FunctionSlots
from gpuruntime.dispatch.activator.leases.held import HeldRuns
from gpuruntime.dispatch.activator.leases.shared_key import SharedKey
from gpuruntime.dispatch.activator.leases.signing import Lease, LeaseError
from gpuruntime.dispatch.activator.runs.commits import Commits
from gpuruntime.dispatch.activator.runs.function_queue import DispatchParts, FunctionQueue
from gpuruntime.dispatch.activator.runs.lease_checks import LeaseChecks
from gpuruntime.dispatch.activator.runs.looks import Looks
from gpuruntime.dispatch.activator.runs.redelivery import Redeliveries
from gpuruntime.dispatch.activator.runs.results import ResultCommits
from gpuruntime.dispatch.activator.runs.starting import Starter
from gpuruntime.dispatch.activator.server_clock import ServerClock
from gpuruntime.dispatch.activator.settings import DispatchSettings
from gpuruntime.dispatch.activator.sources import FunctionSource, PodSource
from gpuruntime.dispatch.activator.work import Work
from gpuruntime.dispatch.activator.workers.identity import WorkerIdentity
from gpuruntime.dispatch.activator.workers.lost import LostRuns
from gpuruntime.dispatch.activator.workers.worker import HeldRun, Worker
from gpuruntime.dispatch.protocol import (
    Cancel,
    Committed,
    Confirmed,
    Drain,
    Draining,
    Heartbeat,
    Hello,
    ProtocolError,
    Release,
    RunResult,
    Welcome,
    WorkerFrame,
)
from gpuruntime.meta import ObjectKey
from gpuruntime.service.invocations.results import ResultLog

__all__ = ["Activator"]

_LOG: Final = logging.getLogger(__name__)
_MOST_LEASES: Final = 4096


class Activator:
    """Dispatches the invocations of all functions to the workers that are connected to this process.

    Guarantees:
        - A worker gets the work of its function only, and a lease is valid for its worker only.
        - Nothing is acknowledged before its result is stored. A worker keeps a result until it is Committed.
        - NATS, or the API server, may come and go: connected workers stay, and go on with what they run.
    """

    def __init__(
        self,
        name: str,
        bus: Bus,
        functions: FunctionSource,
        pods: PodSource,
        figures: DispatchFigures,
        settings: DispatchSettings | None = None,
    ) -> None:
        self.name = name
        self._bus = bus
        self._functions, self._pods = functions, pods
        self._settings = settings or DispatchSettings()
        self._loop = asyncio.get_running_loop()
        self._figures = figures
        self._work = Work()
        self.clock = ServerClock(self._loop.time)
        self.key = SharedKey(bus, self.clock)
        self.held = HeldRuns()
        results = ResultLog(bus)
        self.commits = Commits(bus, results, figures)
        self.redeliveries = Redeliveries(bus, results, self._settings)
        self._starter = Starter(bus, self.held, self.clock, figures)
        looks = Looks(self.commits, self.redeliveries, self.clock)
        self._parts = DispatchParts(
            bus,
            self.key,
            self.held,
            self._starter,
            looks,
            self.redeliveries,
            self.clock,
            figures,
            self._work,
            self._settings,
        )
        self._results = ResultCommits(bus, self.commits, self.clock, figures, self._settings)
        self._checks = LeaseChecks(self.held, results, self._settings)
        self._lost = LostRuns(bus, pods, self._loop.time, 3 * self._settings.ack_wait)
        self._queues: dict[ObjectKey, tuple[FunctionQueue, asyncio.Task[None]]] = {}
        self._workers: set[Worker] = set()
        self._left = asyncio.Event()
        self._is_draining = False

    # -- what workers do

    @property
    def refusal(self) -> str:
        """Why workers cannot be served now; "" if they can."""
        if self._is_draining:
            return "the activator stops"
        return "NATS has not been reached since the start" if self.key.signer is None else ""

    def join(self, identity: WorkerIdentity, hello: Hello) -> Worker:
        """Take a worker in, with the leases that it brings."""
        if len(hello.leases) > _MOST_LEASES:
            raise ProtocolError(f"expected at most {_MOST_LEASES} leases, got {len(hello.leases)}")
        queue = self._queue_of(identity.function)
        worker = Worker(identity, hello.slots, hello.revision, hello.draining)
        worker.was_cached = self._pods.get(identity.pod) is not None
        before = queue.workers.get(identity.pod_uid)
        if before is not None:
            # It has a new connection: the old one is dead, whether or not that is seen here yet.
            self.leave(before)
            before.close()
            queue = self._queue_of(identity.function)
        self._lost.found(identity.pod_uid)
        adopted, lost = list[HeldRun](), list[str]()
        for brought in hello.leases:
            lease = self._lease(worker, brought.lease, brought.id)
            if lease is None:
                lost.append(brought.lease)
            else:
                adopted.append(self._adopt(worker, lease, queue))
        self._workers.add(worker)
        queue.workers[identity.pod_uid] = worker
        worker.send(Welcome(self.name, round(self._settings.heartbeat * 1000), tuple(lost)))
        self._extend(worker, adopted)
        queue.slots_changed()
        return worker

    def receive(self, worker: Worker, frame: WorkerFrame, body: bytes) -> None:
        """Handle a frame of a worker.

        Raises:
            ProtocolError: the frame has no place here.
        """
        match frame:
            case RunResult():
                self._take_result(worker, frame, body)
            case Heartbeat():
                self._take_heartbeat(worker, frame)
            case Release():
                self._take_release(worker, frame)
            case Draining():
                worker.is_draining = True
                self._slots_changed(worker)
            case Hello():
                raise ProtocolError("expected hello as the first frame only")

    def leave(self, worker: Worker) -> None:
        """A worker's connection is lost. Its leases are extended no more; it may bring them elsewhere."""
        if worker not in self._workers:
            return
        self._workers.discard(worker)
        worker.is_open = False
        for run in worker.runs.values():
            self.held.remove(run)
        self._lost.lose(worker)
        found = self._queues.get(worker.identity.function)
        if found is not None:
            queue, task = found
            if queue.workers.get(worker.identity.pod_uid) is worker:
                del queue.workers[worker.identity.pod_uid]
            if not queue.workers:
                del self._queues[worker.identity.function]
                task.cancel()
            else:
                queue.slots_changed()
        if not self._workers:
            self._left.set()

    @property
    def slots(self) -> Mapping[ObjectKey, FunctionSlots]:
        """The workers of each function here."""
        return {key: queue.slots for key, (queue, _) in self._queues.items()}

    # -- the process

    async def run(self) -> None:
        """Dispatch until cancelled; then nothing more is started, and workers leave with what they run.

        It belongs to what a process stops first: NATS must be there while workers leave.
        """
        async with (
            self._functions.watched(self._on_function),
            self._pods.watched(self._lost.on_pod_end),
        ):
            await self._run()

    async def _run(self) -> None:
        with (
            # Before any pull: after a reconnect, leases are extended before deliveries are asked for.
            self._bus.on_connected(self._on_connected),
            self._bus.listen("lease.>", self._on_question),
            self._bus.listen("cancel.>", self._on_cancel),
        ):
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.key.run(), name="key of leases")
                    tasks.create_task(self._checks.run(), name="checks of leases")
            finally:
                await self._drain()

    async def _drain(self) -> None:
        """Stop pulling, ask workers to leave, and commit what comes until they have."""
        self._is_draining = True
        _LOG.info("activator drains", extra={"workers": len(self._workers), "runs": len(self.held)})
        tasks = [task for _, task in self._queues.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for worker in self._workers:
            worker.is_draining = True
            worker.send(Drain())
        if self._workers:
            self._left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.drain):
                    await self._left.wait()
        await self._work.finished(self._settings.drain)
        self.commits.flush()
        for worker in tuple(self._workers):
            worker.close()
        await self._work.cancel()

    # -- frames

    def _take_result(self, worker: Worker, frame: RunResult, body: bytes) -> None:
        run = self._run_of(worker, frame.lease, frame.id)
        if run is None:
            # Nothing that this worker may end: it forgets it.
            worker.send(Committed(frame.lease, frame.id, won=False))
        elif not run.has_result:
            worker.finish(run)
            self._slots_changed(worker)
            self._work.start(self._commit(run, frame, body), f"result of {run.lease.key}")

    async def _commit(self, run: HeldRun, frame: RunResult, body: bytes) -> None:
        won = await self._results.commit(run, frame, body)
        if won is None:
            return
        self.held.remove(run)
        was_full = not run.worker.free
        run.worker.forget(run)
        run.worker.send_soon(Committed(frame.lease, frame.id, won))
        if was_full:
            self._slots_changed(run.worker)

    def _take_heartbeat(self, worker: Worker, frame: Heartbeat) -> None:
        listed = set(frame.leases)
        runs, lost = list[HeldRun](), list[str]()
        for token in frame.leases:
            run = worker.runs.get(token)
            if run is None:
                lost.append(token)
            else:
                run.unlisted = 0
                runs.append(run)
        for run in tuple(worker.runs.values()):
            if run.lease.token not in listed and not run.has_result:
                # One that is on its way to the worker is missing once. One that it does not have is not extended.
                run.unlisted += 1
                if run.unlisted > 2:
                    self._drop(run)
        self._extend(worker, runs, lost)

    def _extend(self, worker: Worker, runs: list[HeldRun], lost: list[str] | None = None) -> None:
        """Extend leases and confirm that. While NATS is away nothing is confirmed."""
        now = self._loop.time()
        try:
            for run in runs:
                self._bus.send(run.lease.ack_subject, b"+WPI")
                if now - run.recorded >= self._settings.record:
                    self._starter.record(run, now)
        except BusUnavailableError:
            runs = []
        worker.send(Confirmed(tuple(run.lease.token for run in runs), tuple(lost or ())))

    def _take_release(self, worker: Worker, frame: Release) -> None:
        run = self._run_of(worker, frame.lease, frame.id)
        if run is None or run.has_result:
            return
        self.held.remove(run)
        worker.forget(run)
        self._figures.given_back += 1
        worker.rests = True
        self._loop.call_later(self._settings.rest, self._end_rest, worker)
        self._slots_changed(worker)
        lease = run.lease
        back = self.redeliveries.give_back(lease.key, lease.sequence, lease.ack_subject)
        self._work.start(back, f"giving back {lease.key}")

    def _end_rest(self, worker: Worker) -> None:
        worker.rests = False
        self._slots_changed(worker)

    def _drop(self, run: HeldRun) -> None:
        _LOG.warning(
            "worker does not have a run that was sent to it",
            extra={"invocation": str(run.lease.key), "pod": run.worker.identity.pod.name},
        )
        self.held.remove(run)
        run.worker.forget(run)
        self._slots_changed(run.worker)

    # -- leases

    def _run_of(self, worker: Worker, token: str, invocation_id: str) -> HeldRun | None:
        run = worker.runs.get(token)
        if run is not None:
            return run if run.lease.key.id == invocation_id else None
        lease = self._lease(worker, token, invocation_id)
        found = self._queues.get(worker.identity.function)
        return None if lease is None or found is None else self._adopt(worker, lease, found[0])

    def _lease(self, worker: Worker, token: str, invocation_id: str) -> Lease | None:
        identity, signer = worker.identity, self.key.signer
        key = InvocationKey(identity.function.namespace, identity.function.name, invocation_id)
        if signer is None:
            return None
        try:
            return signer.read(token, key, identity.pod_uid)
        except LeaseError as error:
            self._figures.refused_leases += 1
            extra = {"pod": identity.pod.name, "invocation": str(key), "error": str(error)}
            _LOG.warning("lease of a worker is refused", extra=extra)
            return None

    def _adopt(self, worker: Worker, lease: Lease, queue: FunctionQueue) -> HeldRun:
        """Hold a run that a worker brings from another activator, or from a connection that it lost."""
        now = self._loop.time()
        started = self.clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        run = HeldRun(lease, worker, queue.limits, now, started_at=started, recorded=now)
        worker.begin(run)
        self.held.add(run)
        return run

    # -- what comes from NATS and from the cluster

    def _on_connected(self) -> None:
        self.redeliveries.note_connect()
        with suppress(BusUnavailableError):
            for run in self.held:
                self._bus.send(run.lease.ack_subject, b"+WPI")

    def _on_question(self, message: Message) -> None:
        """Another activator asks whether a worker of ours has an invocation. Without one there is no answer."""
        key = _key_of(message)
        if key is not None and message.reply and self.held.get(key) is not None:
            with suppress(BusUnavailableError):
                self._bus.send(message.reply, self.name.encode())

    def _on_cancel(self, message: Message) -> None:
        key = _key_of(message)
        run = None if key is None else self.held.get(key)
        if run is not None:
            run.has_ended = True
            run.worker.send(Cancel(run.lease.token, run.lease.key.id, "cancelled"))

    def _on_function(self, key: ObjectKey) -> None:
        found = self._queues.get(key)
        if found is not None:
            found[0].set_function(self._functions.get(key))

    def _queue_of(self, function: ObjectKey) -> FunctionQueue:
        found = self._queues.get(function)
        if found is not None:
            return found[0]
        queue = FunctionQueue(function, self._parts, self._functions.get(function))
        self._queues[function] = (queue, self._work.start(queue.run(), f"queue of {function}"))
        return queue

    def _slots_changed(self, worker: Worker) -> None:
        found = self._queues.get(worker.identity.function)
        if found is not None:
            found[0].slots_changed()


def _key_of(message: Message) -> InvocationKey | None:
    try:
        return key_of_subject(message.subject)
    except ValueError:
        return None
