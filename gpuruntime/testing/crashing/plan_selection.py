"""Which plans are tried: all that follow from an undisturbed run, or a sample that is the same every time."""

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

__all__ = ["Choice", "Trace", "everything", "only", "sample"]


@frozen
class Trace:
    """What an operator did in one run: all its calls, and the writes among them that the server accepted, in order."""

    calls: tuple[Call, ...]
    writes: tuple[Exchange, ...]


Choice = Callable[[Trace], tuple[Plan, ...]]


def everything(trace: Trace) -> tuple[Plan, ...]:
    """Every plan there is: a crash around each write, each failure of each call, each watch late and stale."""
    return (Undisturbed(), SecondPass(), *_crashes(len(trace.writes)), *_failures(trace), *_lags(trace))


def sample(count: int) -> Choice:
    """So many plans besides the undisturbed run and the second pass, some of each sort.

    The same trace leads to the same plans; a larger sample has all plans of a smaller one.
    """

    def choose(trace: Trace) -> tuple[Plan, ...]:
        first, second, *others = everything(trace)
        sorts: dict[object, list[Plan]] = defaultdict(list)
        for plan in sorted(others, key=_dice):
            sorts[type(plan)].append(plan)
        rounds = zip_longest(*(sorts[sort] for sort in sorted(sorts, key=str)))
        dealt = [plan for round_ in rounds for plan in round_ if plan is not None]
        return (first, second, *dealt[:count])

    return choose


def only(*names: str) -> Choice:
    """The plans of these names, as a report gives them.

    Raises:
        ValueError: there is no such plan.
    """
    plans = tuple(parse_plan(name) for name in names)
    return lambda _trace: plans


def _dice(plan: Plan) -> bytes:
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
