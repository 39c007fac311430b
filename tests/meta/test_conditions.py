from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.conditions import (
    Condition,
    ConditionError,
    ConditionStatus,
    find_condition,
    is_true,
    remove_condition,
    set_condition,
)
from gpuruntime.meta.timestamps import format_seconds

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)

statuses: st.SearchStrategy[ConditionStatus] = st.sampled_from(["True", "False", "Unknown"])
conditions = st.builds(
    Condition,
    type=st.sampled_from(["Ready", "Available", "example.org/Bound"]),
    status=statuses,
    reason=st.sampled_from(["Started", "Failed_x", "A,B:C"]),
    message=st.none() | st.text(max_size=5),
    observed_generation=st.none() | st.integers(0, 3),
)


def built(wanted: list[Condition]) -> tuple[Condition, ...]:
    result: tuple[Condition, ...] = ()
    for condition in wanted:
        result = set_condition(result, condition, NOW)
    return result


@given(st.lists(conditions, max_size=5), conditions)
def test_setting_a_condition_keeps_the_order(before: list[Condition], wanted: Condition) -> None:
    old = built(before)

    new = set_condition(old, wanted, LATER)

    found = find_condition(new, wanted.type)
    assert found is not None
    assert (found.status, found.reason) == (wanted.status, wanted.reason)
    assert (found.message, found.observed_generation) == (wanted.message or "", wanted.observed_generation)
    types = [condition.type for condition in old]
    assert [condition.type for condition in new] == types + [wanted.type] * (wanted.type not in types)
    assert all(condition in old for condition in new if condition.type != wanted.type)


@given(st.lists(conditions, max_size=5), conditions)
def test_the_transition_time_moves_exactly_when_the_status_does(before: list[Condition], wanted: Condition) -> None:
    old = built(before)
    previous = find_condition(old, wanted.type)

    found = find_condition(set_condition(old, wanted, LATER), wanted.type)

    moved = previous is None or previous.status != wanted.status
    assert found is not None
    assert found.last_transition_time == format_seconds(LATER if moved else NOW)


@given(st.lists(conditions, max_size=5), conditions)
def test_setting_an_equal_condition_returns_the_identical_tuple(before: list[Condition], wanted: Condition) -> None:
    once = set_condition(built(before), wanted, NOW)

    twice = set_condition(once, evolve(wanted, last_transition_time="1999-01-01T00:00:00Z"), LATER)

    assert twice is once


@given(st.lists(conditions, max_size=5), st.sampled_from(["Ready", "Other"]))
def test_removing_a_condition_keeps_the_others(before: list[Condition], type_: str) -> None:
    old = built(before)

    new = remove_condition(old, type_)

    assert new == tuple(condition for condition in old if condition.type != type_)
    assert (new is old) == (find_condition(old, type_) is None)


@pytest.mark.parametrize(("status", "expected"), [("True", True), ("False", False), ("Unknown", False)])
def test_only_an_existing_true_condition_is_true(status: ConditionStatus, expected: bool) -> None:
    ready = (Condition("Ready", status, "Started"),)

    assert is_true(ready, "Ready") is expected
    assert not is_true(ready, "Available")


def test_fields_that_only_the_server_knows_are_kept() -> None:
    wire = {"type": "Ready", "status": "False", "lastProbeTime": None, "lastTransitionTime": "2020-01-01T00:00:00Z"}
    old = (decode(Condition, wire),)

    (new,) = set_condition(old, Condition("Ready", "True", "Started"), NOW)

    assert encode(new) == {
        "type": "Ready",
        "status": "True",
        "reason": "Started",
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "lastProbeTime": None,
    }


@pytest.mark.parametrize("reason", ["", "two words", "1st", "trailing:", "Ünicode", "x" * 1025, "Newline\n"])
def test_a_reason_that_the_server_would_reject_is_rejected(reason: str) -> None:
    with pytest.raises(ConditionError, match="reason of condition Ready"):
        set_condition((), Condition("Ready", "True", reason), NOW)


@pytest.mark.parametrize("type_", ["", "two words", "Upper.Org/Ready", "x" * 317, "Ready\n"])
def test_a_type_that_the_server_would_reject_is_rejected(type_: str) -> None:
    with pytest.raises(ConditionError, match="condition type"):
        set_condition((), Condition(type_, "True", "Started"), NOW)


@pytest.mark.parametrize("status", [True, None, "true", "Yes", ""])
def test_a_status_is_one_of_three_texts(status: Any) -> None:
    with pytest.raises(ConditionError, match=rf"status of .*Ready, got {status!r}"):
        set_condition((), Condition("Ready", status, "Started"), NOW)


def test_a_message_that_is_too_long_for_the_server_is_truncated() -> None:
    (condition,) = set_condition((), Condition("Ready", "True", "Started", "x" * 40000), NOW)

    assert condition.message == "x" * 32765 + "..."
    assert set_condition((condition,), Condition("Ready", "True", "Started", "x" * 40000), LATER) == (condition,)
