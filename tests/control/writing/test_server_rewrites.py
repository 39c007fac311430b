"""Changes that the server makes to a write, and how known ones are recognised."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.writing import server_rewrites as room
from gpuruntime.control.writing.server_rewrites import KnownRewrites, Rewrite, rewrites
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Service

SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.text("ab", max_size=2)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)
BODIES = st.dictionaries(st.sampled_from(["spec", "data", "rules"]), VALUES, max_size=3)


def sample() -> dict[str, Any]:
    return {"spec": {"image": "a", "env": [{"name": "A"}, {"name": "B"}], "probe": {"port": 1}}}


@pytest.mark.parametrize(
    ("edit", "paths"),
    [
        (lambda spec: spec.update(hostNetwork=True), ["spec.hostNetwork"]),
        (lambda spec: spec.update(image="b"), ["spec.image"]),
        (lambda spec: spec.pop("image"), ["spec.image"]),
        (lambda spec: spec.update(image=None), ["spec.image"]),
        (lambda spec: spec["env"].append({"name": "C"}), ["spec.env[2]"]),
        (lambda spec: spec["env"].pop(), ["spec.env[1]"]),
        (lambda spec: spec["env"].reverse(), ["spec.env[0].name", "spec.env[1].name"]),
        (lambda spec: spec["env"][1].update(value=""), ["spec.env[1].value"]),
        (lambda spec: spec["probe"].update(port="1"), ["spec.probe.port"]),
        (lambda spec: spec["probe"].update(port=True), ["spec.probe.port"]),
        (lambda spec: spec["probe"].update(port=1.0), ["spec.probe.port"]),
        (lambda spec: spec.update(probe=[]), ["spec.probe"]),
        (lambda spec: spec.update(securityContext={}), ["spec.securityContext"]),
    ],
)
def test_every_change_has_a_path(edit: Any, paths: list[str]) -> None:
    live = sample()
    edit(live["spec"])

    assert [found.path for found in rewrites(sample(), live)] == paths


def test_metadata_and_status_are_not_compared() -> None:
    live = sample() | {"metadata": {"labels": {"a": "b"}}, "status": {"x": 1}, "kind": "Y"}

    assert list(rewrites(sample() | {"kind": "X"}, live)) == []


@given(BODIES, BODIES)
def test_there_are_no_rewrites_exactly_if_two_objects_are_identical(sent: Any, live: Any) -> None:
    assert list(rewrites(sent, deepcopy(sent))) == []
    assert (not list(rewrites(sent, live))) == (letters(sent) == letters(live))


@given(BODIES, BODIES, BODIES)
def test_a_known_rewrite_explains_the_same_rewrite_and_nothing_else(sent: Any, live: Any, other: Any) -> None:
    known = KnownRewrites()
    known.learn(Deployment.KIND, "a", rewrites(sent, live))

    assert known.explain(Deployment.KIND, "a", rewrites(sent, deepcopy(live)))
    if list(rewrites(sent, live)):
        assert not known.explain(Deployment.KIND, "b", rewrites(sent, live))
        assert not known.explain(Service.KIND, "a", rewrites(sent, live))
    if known.explain(Deployment.KIND, "a", rewrites(sent, other)):
        assert set(rewrites(sent, other)) <= set(rewrites(sent, live))


def test_a_default_is_known_together_with_the_fields_beside_it() -> None:
    known, filled_in = KnownRewrites(), {"spec": {"image": "a:latest", "pull": "Always"}}
    known.learn(Deployment.KIND, "a", rewrites({"spec": {"image": "a:latest"}}, filled_in))

    edited = rewrites({"spec": {"image": "a:1"}}, {"spec": {"image": "a:1", "pull": "Always"}})

    assert not known.explain(Deployment.KIND, "a", edited)


def test_carried_over_fields_do_not_count_as_fields_beside_a_default() -> None:
    desired = {"spec": {"type": "ClusterIP"}}

    def found(address: str) -> list[Rewrite]:
        sent = {"spec": {"type": "ClusterIP", "clusterIP": address}}
        return list(rewrites(sent, {"spec": {**sent["spec"], "sessionAffinity": "None"}}, desired))

    assert found("10.0.0.1") == found("10.0.0.2")


def test_the_known_rewrites_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_LRU_SIZE", 2)
    known = KnownRewrites()
    found = [Rewrite(f"spec.{number}", b"", b"", b"1") for number in range(3)]

    known.learn(Deployment.KIND, "a", found)

    assert [known.explain(Deployment.KIND, "a", [each]) for each in found] == [False, True, True]


def letters(value: Any) -> Any:
    """The value, with a distinction between types that Python treats as equal."""
    if isinstance(value, dict):
        return {name: letters(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [letters(inner) for inner in value]
    return type(value), value
