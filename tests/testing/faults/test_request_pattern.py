"""Matching of requests."""

import pytest

from gpuruntime.testing.faults.request_pattern import RequestPattern, is_watch, resource_of


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (RequestPattern(), True),
        (RequestPattern(method="GET"), True),
        (RequestPattern(method="POST"), False),
        (RequestPattern(path="/api/v1/pods"), True),
        (RequestPattern(path="/api/v1/pod"), False),
        (RequestPattern(path=".*/pods"), True),
        (RequestPattern(resource="pods"), True),
        (RequestPattern(resource="pods/status"), False),
        (RequestPattern(watch=True), True),
        (RequestPattern(watch=False), False),
        (RequestPattern(query={"limit": "500"}), True),
        (RequestPattern(query={"limit": "500", "continue": "x"}), False),
    ],
)
def test_a_pattern_matches_when_all_given_conditions_hold(pattern: RequestPattern, expected: bool) -> None:
    assert pattern.matches("GET", "/api/v1/pods", {"watch": "true", "limit": "500"}) is expected


def test_a_pattern_with_more_conditions_is_more_specific() -> None:
    patterns = [
        RequestPattern(),
        RequestPattern("GET"),
        RequestPattern("GET", "/x"),
        RequestPattern("GET", "/x", watch=False),
        RequestPattern("GET", "/x", watch=False, query={"limit": "1"}),
    ]

    assert [pattern.conditions for pattern in patterns] == [0, 1, 2, 3, 4]


def test_equal_patterns_are_one_key() -> None:
    one = RequestPattern("GET", "/x", query={"a": "1", "b": "2"})
    other = RequestPattern("GET", "/x", query={"b": "2", "a": "1"})

    assert {one, other} == {one}


def test_an_invalid_regular_expression_is_rejected_at_once() -> None:
    with pytest.raises(ValueError, match=r"path '\['"):
        RequestPattern(path="[")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, False),
        ({"watch": ""}, True),
        ({"watch": "1"}, True),
        ({"watch": "true"}, True),
        ({"watch": "0"}, False),
        ({"watch": "False"}, False),
    ],
)
def test_watches_are_recognised_as_by_the_api_server(query: dict[str, str], expected: bool) -> None:
    assert is_watch(query) is expected


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces/a/pods", "pods"),
        ("/api/v1/namespaces/a/pods/b", "pods"),
        ("/api/v1/namespaces/a/pods/b/status", "pods/status"),
        ("/api/v1/nodes/a/status", "nodes/status"),
        ("/api/v1/namespaces", "namespaces"),
        ("/api/v1/namespaces/a", "namespaces"),
        ("/api/v1/namespaces/a/status", "namespaces/status"),
        ("/api/v1/namespaces/a/finalize", "namespaces/finalize"),
        ("/apis/apps/v1/namespaces/a/deployments/b/scale", "deployments/scale"),
        ("/apis/coordination.k8s.io/v1/leases", "leases"),
        ("/apis/apps/v1", "/apis/apps/v1"),
        ("/api/v1", "/api/v1"),
        ("/version", "/version"),
    ],
)
def test_the_resource_is_parsed_from_the_path(path: str, resource: str) -> None:
    assert resource_of(path) == resource
