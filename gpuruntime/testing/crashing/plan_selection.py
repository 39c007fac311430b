"""Plan selection: all plans that follow from the reference run, a reproducible sample, or plans by name."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import zip_longest

from attrs import frozen

from gpuruntime.testing.crashing.plans import (
    EVERY_RESOURCE,
    CrashAfterWrite,
    CrashBeforeWrite,
    DelayWatch,
    FailOnce,
    Failure,
    Plan,
    SecondPass,
    StaleCache,
    Undisturbed,
    parse_plan,
)
from gpuruntime.testing.faults.exchanges import Call, Exchange

__all__ = ["PlanSelector", "Trace", "everything", "only", "sample"]


@frozen
class Trace:
    """The requests of an operator in one run: all calls, and the writes that the server accepted, in order."""

    calls: tuple[Call, ...]
    writes: tuple[Exchange, ...]


PlanSelector = Callable[[Trace], tuple[Plan, ...]]


def everything(trace: Trace) -> tuple[Plan, ...]:
    """Select every plan: a crash around each write, each failure of each call, a delay and a stop of each watch."""
    return (Undisturbed(), SecondPass(), *_crashes(len(trace.writes)), *_failures(trace), *_lags(trace))


def sample(count: int) -> PlanSelector:
    """Select `count` plans, some of each type, besides the undisturbed run and the second pass.

    The same trace gives the same plans. A larger sample contains every smaller one.
    """

    def choose(trace: Trace) -> tuple[Plan, ...]:
        first, second, *others = everything(trace)
        by_type: dict[object, list[Plan]] = defaultdict(list)
        for plan in sorted(others, key=_shuffle_key):
            by_type[type(plan)].append(plan)
        rounds = zip_longest(*(by_type[plan_type] for plan_type in sorted(by_type, key=str)))
        interleaved = [plan for round_ in rounds for plan in round_ if plan is not None]
        return (first, second, *interleaved[:count])

    return choose


def only(*names: str) -> PlanSelector:
    """Select plans by the names that a report prints.

    Raises:
        ValueError: there is no such plan.
    """
    plans = tuple(parse_plan(name) for name in names)
    return lambda _trace: plans


def _shuffle_key(plan: Plan) -> bytes:
    return hashlib.sha256(str(plan).encode()).digest()


def _crashes(writes: int) -> Iterator[Plan]:
    for number in range(1, writes + 1):
        yield CrashBeforeWrite(number)
        yield CrashAfterWrite(number)
        yield CrashAfterWrite(number, unanswered=True)


def _failures(trace: Trace) -> Iterator[Plan]:
    for call in trace.calls:
        failures: list[Failure] = ["500", "429", "dropped"]
        if call.method in {"PUT", "PATCH"}:
            failures.append("409")
        if call.method in {"POST", "PUT", "PATCH", "DELETE"}:
            failures.append("unanswered")
        for failure in failures:
            yield FailOnce(call, failure)


def _lags(trace: Trace) -> Iterator[Plan]:
    watched = sorted({call.resource for call in trace.calls if call.method == "WATCH"})
    for resource in (*watched, *([EVERY_RESOURCE] if len(watched) > 1 else [])):
        yield DelayWatch(resource)
        yield StaleCache(resource)
