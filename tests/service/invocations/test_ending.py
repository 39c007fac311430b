from datetime import UTC, datetime, timedelta

from gpuruntime.api.invocations import InvocationKey, QueuedInvocation, RunRecord
from gpuruntime.meta import format_micros
from gpuruntime.service.invocations.ending import cancelled_record
from gpuruntime.service.invocations.lookup import InvocationRun, StoredRequest

ACCEPTED = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = StoredRequest(InvocationKey("runtime-instance", "echo", "one"), QueuedInvocation("hash"), 1, ACCEPTED, b"")


def run(started_at: str) -> InvocationRun:
    return InvocationRun(RunRecord(1, "unit-1", "pod-1", started_at), ACCEPTED)


def test_what_is_cancelled_in_the_queue_has_waited_until_then() -> None:
    record = cancelled_record(REQUEST, None, None, ACCEPTED + timedelta(seconds=5))

    assert (record.delay_millis, record.execution_millis, record.started_at) == (5000, 0, "")


def test_what_is_cancelled_in_a_run_has_waited_until_its_start_and_run_since() -> None:
    started = format_micros(ACCEPTED + timedelta(seconds=2))
    record = cancelled_record(REQUEST, run(started), None, ACCEPTED + timedelta(seconds=5))

    assert (record.delay_millis, record.execution_millis, record.started_at) == (2000, 3000, started)


def test_times_are_never_negative_whatever_the_clocks_of_others_show() -> None:
    started = format_micros(ACCEPTED - timedelta(hours=1))
    record = cancelled_record(REQUEST, run(started), None, ACCEPTED - timedelta(hours=2))

    assert (record.delay_millis, record.execution_millis) == (0, 0)
