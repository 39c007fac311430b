"""The plans that follow from a trace, and samples of them."""

from gpuruntime.testing.crashing import Plan
from gpuruntime.testing.crashing.plan_selection import Trace, everything, only, sample
from gpuruntime.testing.faults.exchanges import Call, Exchange


def trace() -> Trace:
    calls = (
        Call("WATCH", "configmaps", 1),
        Call("WATCH", "secrets", 1),
        Call("POST", "secrets", 1),
        Call("PATCH", "configmaps", 1),
    )
    writes = tuple(Exchange(call, "a", write=True, at=0.0, status=200) for call in calls[2:])
    return Trace(calls, writes)


def names(plans: tuple[Plan, ...]) -> list[str]:
    return [str(plan) for plan in plans]


def test_everything_selects_each_crash_each_failure_and_each_delay() -> None:
    plans = names(everything(trace()))

    assert plans == [
        *("undisturbed", "second-pass"),
        *("crash-before-write:1", "crash-after-write:1", "crash-after-write:1:unanswered"),
        *("crash-before-write:2", "crash-after-write:2", "crash-after-write:2:unanswered"),
        *(f"fail:{failure}:WATCH configmaps #1" for failure in ("500", "429", "dropped")),
        *(f"fail:{failure}:WATCH secrets #1" for failure in ("500", "429", "dropped")),
        *(f"fail:{failure}:POST secrets #1" for failure in ("500", "429", "dropped", "unanswered")),
        *(f"fail:{failure}:PATCH configmaps #1" for failure in ("500", "429", "dropped", "409", "unanswered")),
        *("delay-watch:configmaps:2", "stale-cache:configmaps"),
        *("delay-watch:secrets:2", "stale-cache:secrets"),
        *("delay-watch:*:2", "stale-cache:*"),
    ]


def test_a_sample_is_deterministic_and_has_plans_of_each_type() -> None:
    plans = names(sample(5)(trace()))

    assert plans == names(sample(5)(trace()))
    assert plans[:2] == ["undisturbed", "second-pass"]
    assert {name.split(":")[0] for name in plans[2:]} == {
        "crash-after-write",
        "crash-before-write",
        "delay-watch",
        "fail",
        "stale-cache",
    }


def test_a_larger_sample_has_all_plans_of_a_smaller_one_and_the_largest_is_everything() -> None:
    small, large, largest = (names(sample(count)(trace())) for count in (4, 11, 1000))

    assert large[: len(small)] == small
    assert sorted(largest) == sorted(names(everything(trace())))


def test_plans_can_be_selected_by_name() -> None:
    plans = only("stale-cache:pods", "undisturbed")(trace())

    assert names(plans) == ["stale-cache:pods", "undisturbed"]
