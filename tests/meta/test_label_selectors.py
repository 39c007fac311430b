from collections.abc import Mapping

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.codec import decode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.label_selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    Requirement,
    Selector,
    SelectorError,
    parse_selector,
)

# Few keys and values, keywords among them, so that selectors and labels meet.
keys = st.sampled_from(["a", "in", "notin", "example.org/a", "A_b.c"])
values = st.sampled_from(["", "x", "y", "in", "notin", "1.0"])
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=3)),
    st.builds(Requirement, keys, st.sampled_from(["Exists", "DoesNotExist"])),
)
selectors = st.builds(Selector, st.lists(requirements, max_size=4))
label_sets = st.dictionaries(keys, values)


def naive(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    found = labels.get(requirement.key)
    return {
        "In": found is not None and found in requirement.values,
        "NotIn": found is None or found not in requirement.values,
        "Exists": found is not None,
        "DoesNotExist": found is None,
    }[requirement.operator]


@given(selectors)
def test_a_selector_round_trips_through_text(selector: Selector) -> None:
    assert parse_selector(str(selector)) == selector


@given(selectors, label_sets)
def test_matching_agrees_with_a_naive_model(selector: Selector, labels: dict[str, str]) -> None:
    expected = all(naive(requirement, labels) for requirement in selector.requirements)

    assert selector.matches(labels) == expected


@given(label_sets, label_sets)
def test_labels_select_exactly_their_supersets(wanted: dict[str, str], labels: dict[str, str]) -> None:
    selector = Selector.of(LabelSelector(match_labels=FrozenDict(wanted)))

    assert selector.matches(labels) == (wanted.items() <= labels.items())


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("  ", ""),
        ("a", "a"),
        (" ! a ", "!a"),
        ("a=b", "a=b"),
        ("a == b", "a=b"),
        ("a!=b", "a!=b"),
        ("a=", "a="),
        ("a=,b", "a=,b"),
        ("a in (c, b,b)", "a in (b,c)"),
        ("a in(b)", "a=b"),
        ("a notin (b)", "a!=b"),
        ("a in ()", "a="),
        ("a in (b,)", "a in (,b)"),
        ("a in (,,)", "a="),
        ("in in (in,notin)", "in in (in,notin)"),
        ("notin", "notin"),
        ("b,a,b", "a,b"),
        ("example.org/a=b", "example.org/a=b"),
    ],
)
def test_selectors_are_parsed_as_by_the_api_server(text: str, canonical: str) -> None:
    assert str(parse_selector(text)) == canonical


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a=b,", 4),
        (",a", 0),
        ("a,,b", 2),
        ("a=b=c", 3),
        ("a b", 2),
        ("a in b", 5),
        ("a in (b", 7),
        ("a in (b c)", 8),
        ("a in (b))", 8),
        ("!a=b", 2),
        ("!", 1),
        ("=b", 0),
        ("a>1", 1),
        ("a, -bad=x", 3),
        ("x=y,a=-bad", 4),
        ("a=" + "x" * 64, 0),
        ("UPPER.org/a", 0),
        ("/a", 0),
        ("a/b/c", 0),
    ],
)
def test_a_syntax_error_has_its_position(text: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)

    assert caught.value.position == position


@given(st.text(alphabet="ab=!(), innot<>-/.\t\n"))
def test_no_input_raises_any_other_error(text: str) -> None:
    try:
        selector = parse_selector(text)
    except SelectorError:
        return
    assert parse_selector(str(selector)) == selector


def test_a_label_selector_with_labels_and_expressions_is_read() -> None:
    wire = {
        "matchLabels": {"app": "llm"},
        "matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["b", "a"]},
            {"key": "gone", "operator": "DoesNotExist"},
        ],
    }

    selector = Selector.of(decode(LabelSelector, wire))

    assert str(selector) == "app=llm,!gone,tier notin (a,b)"


def test_an_empty_label_selector_selects_everything() -> None:
    assert Selector.of(LabelSelector()).matches({"any": "thing"})


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        (LabelSelectorRequirement("a", "Gt", ("1",)), "In, NotIn, Exists, DoesNotExist, got 'Gt'"),
        (LabelSelectorRequirement("a", "In"), "In on label a, got 0"),
        (LabelSelectorRequirement("a", "Exists", ("b",)), "Exists on label a, got 1"),
        (LabelSelectorRequirement("-", "Exists"), "key .*'-'"),
        (LabelSelectorRequirement("a", "In", ("b c",)), "value .*'b c'"),
    ],
)
def test_a_label_selector_that_the_server_would_reject_is_rejected(
    expression: LabelSelectorRequirement, named: str
) -> None:
    selector = LabelSelector(match_expressions=(expression,))

    with pytest.raises(SelectorError, match=named) as caught:
        Selector.of(selector)

    assert caught.value.position is None


@given(selectors)
def test_selectors_are_equal_in_any_order_of_requirements(selector: Selector) -> None:
    shuffled = evolve(selector, requirements=tuple(reversed(selector.requirements)))

    assert shuffled == selector
    assert hash(shuffled) == hash(selector)
