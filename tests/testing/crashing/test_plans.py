"""Plans can be parsed from their names."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.testing.crashing.plans import (
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
from gpuruntime.testing.faults.exchanges import Call

NUMBERS = st.integers(1, 10_000)
RESOURCES = st.from_regex(r"[a-z]{1,12}(/[a-z]{1,12})?|\*", fullmatch=True)
CALLS = st.builds(Call, st.sampled_from(["GET", "WATCH", "POST", "PUT", "PATCH", "DELETE"]), RESOURCES, NUMBERS)
PLANS = st.one_of(
    st.just(Undisturbed()),
    st.just(SecondPass()),
    st.builds(CrashAfterWrite, NUMBERS, st.booleans()),
    st.builds(CrashBeforeWrite, NUMBERS),
    st.builds(FailOnce, CALLS, st.sampled_from(get_args(Failure))),
    st.builds(DelayWatch, RESOURCES, st.sampled_from([0.5, 2.0, 30.0])),
    st.builds(StaleCache, RESOURCES),
)


@given(PLANS)
def test_a_plan_round_trips_through_its_name(plan: Plan) -> None:
    name = str(plan)

    found = parse_plan(name)

    assert found == plan
    assert "," not in name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "crash",
        "crash-after-write",
        "crash-after-write:0",
        "crash-after-write:one",
        "crash-after-write:1:answered",
        "fail:418:POST pods #1",
        "fail:500:POST pods",
        "delay-watch:pods:-1",
        "undisturbed:1",
    ],
)
def test_an_unknown_plan_is_rejected_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="plan '") as caught:
        parse_plan(text)

    assert repr(text) in str(caught.value)


@given(st.text())
def test_any_text_is_a_plan_or_a_value_error(text: str) -> None:
    try:
        plan = parse_plan(text)
    except ValueError:
        return

    assert parse_plan(str(plan)) == plan
