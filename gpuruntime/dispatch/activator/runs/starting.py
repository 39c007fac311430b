"""The start of a run: the lease, the frame to the worker, and soon the record of the run. It waits for nothing."""

import asyncio
from contextlib import suppress
from typing import Final

from attrs import field, frozen

from gpuruntime.api.invocations import InvocationKey, QueuedInvocation, RunRecord, metadata_headers, run_subject
from gpuruntime.bus import Bus, BusUnavailableError, Delivery
from gpuruntime.dispatch.activator.figures import DispatchFigures
from gpuruntime.dispatch.activator.leases.held import HeldRuns
from gpuruntime.dispatch.activator.leases.signing import Lease, LeaseSigner
from gpuruntime.dispatch.activator.runs.limits import RunLimits
from gpuruntime.dispatch.activator.server_clock import ServerClock
from gpuruntime.dispatch.activator.workers.worker import HeldRun, Worker
from gpuruntime.dispatch.protocol import Run

__all__ = ["RECORD_AFTER_SECONDS", "Starter"]

RECORD_AFTER_SECONDS: Final = 0.05
"""For how long a run goes on at most before it is recorded: shorter ones cost no record."""


@frozen
class Starter:
    """Gives runs to workers."""

    bus: Bus
    held: HeldRuns
    clock: ServerClock
    figures: DispatchFigures
    unrecorded: list[HeldRun] = field(factory=list)
    """Runs that began since the last turn of recording."""

    def start(
        self,
        signer: LeaseSigner,
        worker: Worker,
        key: InvocationKey,
        queued: QueuedInvocation,
        delivery: Delivery,
        attempt: int,
        limits: RunLimits,
    ) -> None:
        """Send a delivery to a worker that has a free slot."""
        uid = worker.identity.pod_uid
        token = signer.sign(key, uid, attempt, delivery.ack_subject)
        lease = Lease(
            key,
            uid,
            token,
            attempt,
            delivery.ack_subject,
            delivery.stream,
            delivery.stream_sequence,
            delivery.time,
        )
        now, server_now = asyncio.get_running_loop().time(), self.clock.now()
        run = HeldRun(
            lease,
            worker,
            limits,
            now,
            queued,
            started_at=server_now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            checked=now,
        )
        worker.begin(run)
        self.held.add(run)
        worker.send(
            Run(
                lease=token,
                id=key.id,
                attempt=attempt,
                timeout_millis=limits.timeout_of(queued),
                mode=queued.mode,
                content_type=queued.content_type,
                headers=queued.headers,
                attributes=queued.attributes,
                traceparent=queued.traceparent,
                abort_on_lost_lease=limits.abort_on_lost_lease,
                max_result_bytes=limits.max_result_bytes,
            ),
            delivery.body,
        )
        self.figures.wait.observe(max(0.0, (server_now - delivery.time).total_seconds()))
        if not self.unrecorded:
            asyncio.get_running_loop().call_later(RECORD_AFTER_SECONDS, self._record_all)
        self.unrecorded.append(run)

    def _record_all(self) -> None:
        """Record what has run for a moment. Most short runs have ended by then, and nothing has to be written."""
        now, runs = asyncio.get_running_loop().time(), tuple(self.unrecorded)
        self.unrecorded.clear()
        for run in runs:
            if self.held.get(run.lease.key) is run and not run.has_result:
                self.record(run, now)

    def record(self, run: HeldRun, now: float) -> None:
        """Write who has a run, for its status. It may be lost."""
        run.recorded = now
        record = RunRecord(run.lease.attempt, run.worker.identity.unit, run.worker.identity.pod_uid, run.started_at)
        with suppress(BusUnavailableError):
            self.bus.send(run_subject(run.lease.key), b"", metadata_headers(record))
