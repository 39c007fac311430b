from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.identity import ObjectKey, ResourceKind

DEPLOYMENT = ResourceKind("apps", "v1", "Deployment", "deployments", namespaced=True)
POD = ResourceKind("", "v1", "Pod", "pods", namespaced=True)
NODE = ResourceKind("", "v1", "Node", "nodes", namespaced=False)

names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (DEPLOYMENT.path(), "/apis/apps/v1/deployments"),
        (DEPLOYMENT.path("ns"), "/apis/apps/v1/namespaces/ns/deployments"),
        (DEPLOYMENT.path("ns", "x"), "/apis/apps/v1/namespaces/ns/deployments/x"),
        (DEPLOYMENT.path("ns", "x", "status"), "/apis/apps/v1/namespaces/ns/deployments/x/status"),
        (POD.path("ns", "x", "log"), "/api/v1/namespaces/ns/pods/x/log"),
        (NODE.path(), "/api/v1/nodes"),
        (NODE.path("", "x"), "/api/v1/nodes/x"),
        (NODE.path(None, "system:node a?b#c"), "/api/v1/nodes/system%3Anode%20a%3Fb%23c"),
    ],
)
def test_a_kind_knows_its_paths(path: str, expected: str) -> None:
    assert path == expected


@given(st.text(min_size=1, max_size=6).filter(lambda text: text not in {".", ".."} and not set(text) & set("/%")))
def test_every_name_is_one_segment_of_the_path(name: str) -> None:
    try:
        expected = quote(name, safe="")
    except UnicodeEncodeError:
        return  # half of a surrogate pair is not a name

    assert NODE.path(None, name) == f"/api/v1/nodes/{expected}"


@pytest.mark.parametrize(
    ("kind", "arguments", "named"),
    [
        (NODE, ("ns", "x"), "v1 Node .*namespace, got 'ns'"),
        (POD, (None, "x"), "v1 Pod .*namespace for 'x'"),
        (POD, ("ns", ""), "got ''"),
        (POD, ("ns", None, "status"), "'status' of v1 Pod: .*name"),
        (POD, ("ns", "x", ""), "got ''"),
        (POD, ("ns", ".."), "got '..'"),
        (POD, ("..", "x"), "got '..'"),
        (POD, ("ns", "a/b"), "got 'a/b'"),
        (POD, ("ns", "a%2fb"), "got 'a%2fb'"),
    ],
)
def test_a_path_that_would_address_something_else_is_rejected(
    kind: ResourceKind, arguments: tuple[str | None, ...], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        kind.path(*arguments)


def test_the_core_group_has_no_prefix_in_api_version() -> None:
    assert (DEPLOYMENT.api_version, POD.api_version) == ("apps/v1", "v1")
    assert (str(DEPLOYMENT), str(POD)) == ("apps/v1 Deployment", "v1 Pod")


def test_kinds_and_keys_are_hashable() -> None:
    cache = {(POD, ObjectKey("ns", "x")): 1}

    found = cache[ResourceKind("", "v1", "Pod", "pods", namespaced=True), ObjectKey("ns", "x")]

    assert found == 1


def test_keys_sort_by_namespace_and_then_by_name() -> None:
    keys = [ObjectKey("b", "a"), ObjectKey("a", "b"), ObjectKey("a", "a"), ObjectKey("", "z")]

    assert list(map(str, sorted(keys))) == ["z", "a/a", "a/b", "b/a"]


@given(st.just("") | names, names)
def test_a_key_round_trips_through_text(namespace: str, name: str) -> None:
    key = ObjectKey(namespace, name)

    assert ObjectKey.parse(str(key)) == key


@pytest.mark.parametrize("text", ["", "/", "ns/", "/name", "a/b/c"])
def test_an_invalid_key_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="namespace/name"):
        ObjectKey.parse(text)
