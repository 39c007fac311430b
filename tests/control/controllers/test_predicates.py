"""Which changes pass."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.controllers.predicates import (
    Predicate,
    all_of,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
    matching,
    negated,
    resource_version_changed,
)
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.indexer import Indexer
from gpuruntime.control.informers.storage import Eager, Storage, compact, eager, projected
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.forms import metadata_only, typed
from gpuruntime.meta.label_selectors import parse_selector

COMPARING: list[Callable[[], Predicate]] = [
    generation_changed,
    labels_changed,
    annotations_changed,
    resource_version_changed,
]
METADATA = st.fixed_dictionaries(
    {
        "generation": st.integers(0, 2),
        "labels": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
        "annotations": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
        "resourceVersion": st.sampled_from("12"),
    }
)


def change(
    before: dict[str, Any] | None, after: dict[str, Any] | None, storage: Storage[Any] = Eager(typed(ConfigMap))
) -> Change[Any]:
    def entry(metadata: dict[str, Any] | None) -> Any:
        if metadata is None:
            return None
        return Indexer(storage, ()).entry({"metadata": {"name": "x", "namespace": "a", "uid": "u", **metadata}}, 10)

    return Change(storage, entry(before), entry(after))


@pytest.mark.parametrize(
    ("predicate", "before", "after", "passes"),
    [
        (generation_changed, {"generation": 1}, {"generation": 2}, True),
        (generation_changed, {"generation": 1}, {"generation": 1, "labels": {"a": "x"}}, False),
        (
            generation_changed,
            {"generation": 1, "resourceVersion": "1"},
            {"generation": 1, "resourceVersion": "2"},
            False,
        ),
        (generation_changed, {"resourceVersion": "1"}, {"resourceVersion": "2"}, True),
        (labels_changed, {"labels": {"a": "x"}}, {"labels": {"a": "y"}}, True),
        (labels_changed, {"labels": {"a": "x"}}, {}, True),
        (labels_changed, {"labels": {"a": "x"}}, {"labels": {"a": "x"}, "annotations": {"a": "y"}}, False),
        (annotations_changed, {"annotations": {"a": "x"}}, {"annotations": {"a": "y"}}, True),
        (annotations_changed, {"labels": {"a": "x"}}, {"labels": {"a": "y"}}, False),
        (resource_version_changed, {"resourceVersion": "1"}, {"resourceVersion": "2"}, True),
        (resource_version_changed, {"resourceVersion": "1"}, {"resourceVersion": "1"}, False),
    ],
)
@pytest.mark.parametrize(
    "storage", [eager(ConfigMap), compact(metadata_only(ConfigMap.KIND))], ids=["whole", "partial"]
)
def test_a_modification_passes_if_what_matters_differs(
    storage: Storage[Any],
    predicate: Callable[[], Predicate],
    before: dict[str, Any],
    after: dict[str, Any],
    passes: bool,
) -> None:
    assert predicate()(change(before, after, storage)) is passes


@pytest.mark.parametrize("predicate", COMPARING)
def test_that_an_object_appeared_or_went_always_passes_also_negated(predicate: Callable[[], Predicate]) -> None:
    for appeared_or_went in (change(None, {}), change({}, None)):
        assert predicate()(appeared_or_went)
        assert negated(predicate())(appeared_or_went)


@pytest.mark.parametrize(
    ("before", "after", "passes"),
    [
        (None, {"app": "x"}, True),
        (None, {"app": "y"}, False),
        ({"app": "x"}, None, True),
        ({"app": "y"}, None, False),
        ({"app": "x"}, {"app": "y"}, True),
        ({"app": "y"}, {"app": "x"}, True),
        ({"app": "y"}, {"app": "z"}, False),
    ],
)
def test_an_object_matches_if_it_does_now_or_did_before(
    before: dict[str, str] | None, after: dict[str, str] | None, passes: bool
) -> None:
    old, new = (None if labels is None else {"labels": labels} for labels in (before, after))

    assert matching("app=x")(change(old, new)) is passes
    assert matching(parse_selector("app in (x)"))(change(old, new)) is passes


@given(before=METADATA, after=METADATA)
def test_predicates_combine_as_propositions_do(before: dict[str, Any], after: dict[str, Any]) -> None:
    modified = change(before, after)
    truths = [predicate()(modified) for predicate in COMPARING]
    predicates = [predicate() for predicate in COMPARING]

    assert all_of(*predicates)(modified) is all(truths)
    assert any_of(*predicates)(modified) is any(truths)
    assert negated(any_of(*predicates))(modified) is all_of(*map(negated, predicates))(modified)
    assert [negated(negated(predicate))(modified) for predicate in predicates] == truths


def test_all_of_nothing_passes_everything_and_any_of_nothing_passes_nothing() -> None:
    assert all_of()(change({}, {}))
    assert not any_of()(change({}, {}))


def test_an_object_that_can_be_read_at_last_passes() -> None:
    storage = compact(ConfigMap)
    unreadable = Indexer(storage, ()).entry({"metadata": {"name": "x", "labels": 5}}, 10)
    readable = Indexer(storage, ()).entry({"metadata": {"name": "x", "labels": {"app": "x"}}}, 10)

    assert all(predicate()(Change(storage, unreadable, readable)) for predicate in COMPARING)
    assert matching("app=x")(Change(storage, unreadable, readable))


@pytest.mark.parametrize("predicate", [*(made() for made in COMPARING), matching("app=x")])
def test_a_projection_has_no_metadata_to_compare_and_the_error_says_what_to_do(predicate: Predicate) -> None:
    sizes = change({}, {}, projected(ConfigMap.KIND, len))

    with pytest.raises(TypeError, match="int"):
        predicate(sizes)
