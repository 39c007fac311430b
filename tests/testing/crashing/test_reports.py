"""The text of reports."""

import pytest
from attrs import evolve

from gpuruntime.testing.crashing import CrashAfterWrite, FailOnce, SecondPass, Trace
from gpuruntime.testing.crashing.reports import Report, Verdict
from gpuruntime.testing.faults.exchanges import Call, Exchange

CALL = Call("POST", "secrets", 1)
GOOD = Verdict(
    plan=CrashAfterWrite(1),
    triggered=True,
    point="POST secrets a",
    same=True,
    difference="",
    violations=(),
    repeated=(),
    writes=2,
    exits=(),
)
TRACE = Trace((CALL,), (Exchange(CALL, "a", write=True, at=0.0, status=201),))


def test_a_report_without_failures_is_short_and_passes() -> None:
    not_triggered = evolve(GOOD, plan=FailOnce(CALL, "500"), triggered=False)
    report = Report("children", TRACE, (GOOD, not_triggered))

    report.check()

    assert str(report).splitlines() == [
        "children: 2 plans, 1 hold, 0 fail, 1 not triggered",
        "writes of the reference run:",
        "  1. POST secrets a",
        "",
        "not triggered: fail:500:POST secrets #1",
    ]


def test_a_failure_names_the_request_the_difference_and_the_rerun_command() -> None:
    different = evolve(GOOD, same=False, difference="Secret <main>/a: 2 instead of 1", exits=("ValueError: x",))
    second = evolve(GOOD, plan=SecondPass(), point="", repeated=("PATCH pods a",), violations=("two of them",))
    failing = evolve(different, plan=FailOnce(CALL, "500"))
    report = Report("children", TRACE, (different, second, failing), "test_a.py::test_b[c d]")

    with pytest.raises(AssertionError) as caught:
        report.check()

    assert str(caught.value).splitlines()[4:] == [
        "FAILED crash-after-write:1 (at POST secrets a)",
        "  Secret <main>/a: 2 instead of 1",
        "  the operator exited by itself: ValueError: x",
        "  rerun: GPURUNTIME_CRASH_PLANS=crash-after-write:1 python -m pytest 'test_a.py::test_b[c d]'",
        "",
        "FAILED second-pass",
        "  invariant violated: two of them",
        "  unnecessary write in the second pass: PATCH pods a",
        "  rerun: GPURUNTIME_CRASH_PLANS=second-pass python -m pytest 'test_a.py::test_b[c d]'",
        "",
        "FAILED fail:500:POST secrets #1 (at POST secrets a)",
        "  Secret <main>/a: 2 instead of 1",
        "  the operator exited by itself: ValueError: x",
        "  rerun: GPURUNTIME_CRASH_PLANS='fail:500:POST secrets #1' python -m pytest 'test_a.py::test_b[c d]'",
    ]
