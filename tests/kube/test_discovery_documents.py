"""Discovery documents of every age give the same kinds, and broken ones do no harm."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.kube.discovery_documents import aggregated_kinds, group_versions, resource_kinds
from gpuruntime.meta import ResourceKind

WIDGET = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)
NODE = ResourceKind("", "v1", "Node", "nodes", namespaced=False)


def resource(kind: ResourceKind) -> dict[str, Any]:
    return {
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "subresources": [{"subresource": "status", "responseKind": {"kind": kind.kind}}],
    }


def test_an_aggregated_document_gives_all_kinds_in_the_order_of_the_server() -> None:
    document = {
        "items": [
            {"metadata": {}, "versions": [{"version": "v1", "resources": [resource(NODE)]}]},
            {
                "metadata": {"name": "example.org"},
                "versions": [
                    {"version": "v1", "resources": [resource(WIDGET)]},
                    {"version": "v1beta1", "resources": [resource(WIDGET)], "freshness": "Stale"},
                ],
            },
        ]
    }

    kinds = list(aggregated_kinds(document))

    assert kinds == [NODE, WIDGET, ResourceKind("example.org", "v1beta1", "Widget", "widgets", namespaced=True)]


def test_the_preferred_version_of_a_group_comes_first() -> None:
    document = {
        "groups": [
            {
                "name": "example.org",
                "versions": [{"version": "v1"}, {"version": "v2beta1"}, {"version": "v3"}],
                "preferredVersion": {"version": "v2beta1"},
            },
            {"name": "other.org", "versions": [{"version": "v1"}]},
        ]
    }

    assert list(group_versions(document)) == [
        ("example.org", "v2beta1"),
        ("example.org", "v1"),
        ("example.org", "v3"),
        ("other.org", "v1"),
    ]


def test_subresources_are_no_kinds() -> None:
    document = {
        "resources": [
            {"name": "widgets", "kind": "Widget", "namespaced": True},
            {"name": "widgets/status", "kind": "Widget", "namespaced": True},
            {"name": "widgets/scale", "kind": "Scale", "namespaced": True, "group": "autoscaling"},
        ]
    }

    assert list(resource_kinds("example.org", "v1", document)) == [WIDGET]


@pytest.mark.parametrize("broken", [None, 1, "x", {}, [None], [{}], [{"metadata": 1, "versions": {"a": 1}}]])
def test_what_is_broken_is_skipped(broken: Any) -> None:
    good = {"metadata": {"name": "example.org"}, "versions": [{"version": "v1", "resources": [resource(WIDGET)]}]}
    items = [*broken, good] if isinstance(broken, list) else [broken, good]

    assert list(aggregated_kinds({"items": items})) == [WIDGET]
    assert list(aggregated_kinds({"items": broken})) == []


names = st.sampled_from(
    ["items", "metadata", "name", "versions", "version", "resources", "responseKind", "kind", "groups"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(st.dictionaries(names, json_values))
def test_any_document_can_be_read(document: dict[str, Any]) -> None:
    for kind in (*aggregated_kinds(document), *resource_kinds("g", "v1", document)):
        assert kind.kind
        assert kind.plural
    assert all(version for _, version in group_versions(document))
