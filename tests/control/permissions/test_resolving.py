from collections.abc import Sequence

import pytest

from gpuruntime.control.informers.informer import InformerScope
from gpuruntime.control.informers.storage import eager
from gpuruntime.control.permissions.declarations import (
    Declaration,
    allow,
    allow_children,
    allow_events,
    allow_rule,
    allow_status,
)
from gpuruntime.control.permissions.resolving import LeaseName, PermissionsError, required_permissions
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.kube.builtin.nodes import Node
from gpuruntime.kube.forms import metadata_only
from gpuruntime.meta.field_selectors import parse_field_selector
from gpuruntime.meta.label_selectors import parse_selector

MAPS = eager(ConfigMap)


def resolved(scopes: Sequence[InformerScope[ConfigMap]], *declarations: Declaration) -> list[str]:
    return [str(permission) for permission in required_permissions(scopes, declarations)]


def test_a_watch_of_all_namespaces_holds_everywhere_and_one_of_some_in_each_of_them() -> None:
    assert resolved([InformerScope(MAPS)]) == ["list configmaps everywhere", "watch configmaps everywhere"]
    assert resolved([InformerScope(MAPS, ("a", "b"))]) == [
        "list configmaps in a",
        "list configmaps in b",
        "watch configmaps in a",
        "watch configmaps in b",
    ]


def test_metadata_needs_the_same_permissions_as_whole_objects() -> None:
    whole = required_permissions([InformerScope(eager(Node))], ())

    assert required_permissions([InformerScope(eager(metadata_only(Node.KIND)))], ()) == whole


def test_a_watch_of_one_object_is_a_right_to_that_object() -> None:
    scope = InformerScope(MAPS, ("a",), fields=parse_field_selector("metadata.name=settings"))

    assert resolved([scope]) == ["list configmaps 'settings' in a", "watch configmaps 'settings' in a"]


def test_what_is_written_is_read_where_a_cache_is_to_show_it() -> None:
    assert resolved([InformerScope(MAPS, ("a",))], allow_status(ConfigMap)) == [
        "get configmaps in a",
        "list configmaps in a",
        "watch configmaps in a",
        "patch configmaps/status in a",
    ]


def test_what_is_written_is_read_where_a_cache_with_a_selector_is_to_show_it() -> None:
    scope = InformerScope(MAPS, labels=parse_selector("app=web"))

    assert "get configmaps everywhere" in resolved([scope], allow(ConfigMap, "create", "delete"))


def test_reads_are_limited_to_the_namespaces_and_names_of_the_writes() -> None:
    everywhere, somewhere = [InformerScope(MAPS)], [InformerScope(MAPS, ("a", "b"))]

    assert "get configmaps 'x' in a" in resolved(
        everywhere, allow(ConfigMap, "delete", names=("x",), namespaces=("a",))
    )
    assert "get configmaps in a" in resolved(somewhere, allow(ConfigMap, "delete", namespaces=()))
    assert not [
        permission
        for permission in resolved(somewhere, allow(ConfigMap, "delete", namespaces=("c",)))
        if "get" in permission
    ]


def test_what_is_changed_may_be_read_to_find_who_changes_it_back() -> None:
    assert resolved([], allow(Node, "patch", names=("one",))) == [
        "get nodes 'one' everywhere",
        "patch nodes 'one' everywhere",
    ]
    assert resolved([], allow(Node, "update", subresource="status"))[0] == "get nodes/status everywhere"
    assert resolved([], allow_status(Node)) == ["patch nodes/status everywhere"]


def test_declarations_hold_wherever_their_kind_is_watched() -> None:
    scopes = [InformerScope(MAPS, ("a",)), InformerScope(MAPS, ("b",), parse_selector("x=y"))]

    assert [permission for permission in resolved(scopes, allow_events(ConfigMap)) if "create" in permission] == [
        "create events.events.k8s.io in a",
        "create events.events.k8s.io in b",
    ]
    assert "create events.events.k8s.io everywhere" in resolved([*scopes, InformerScope(MAPS)], allow_events(ConfigMap))


def test_a_declaration_for_an_unwatched_kind_needs_namespaces() -> None:
    with pytest.raises(PermissionsError, match=r"apps/v1 Deployment.* namespaces="):
        required_permissions([], [allow_children(Deployment)])

    assert resolved([], allow_children(Deployment, namespaces=("a",))) == [
        "create deployments.apps in a",
        "get deployments.apps in a",
        "update deployments.apps in a",
    ]


def test_what_has_no_namespace_needs_none() -> None:
    assert resolved([], allow(Node, "delete")) == ["delete nodes everywhere"]
    assert resolved([], allow_rule("authentication.k8s.io", "tokenreviews", ["create"])) == [
        "create tokenreviews.authentication.k8s.io everywhere"
    ]


def test_an_election_may_read_and_update_its_lease_alone_but_create_any() -> None:
    permissions = required_permissions([InformerScope(MAPS)], [], LeaseName("system", "leader"))

    assert [str(permission) for permission in permissions if permission.resource == "leases"] == [
        "create leases.coordination.k8s.io in system",
        "get leases.coordination.k8s.io 'leader' in system",
        "update leases.coordination.k8s.io 'leader' in system",
    ]
    assert not [permission for permission in permissions if permission.rare]


def test_rare_permissions_say_when_they_are_needed() -> None:
    permissions = required_permissions([InformerScope(eager(Secret))], [allow_children(Secret, of=ConfigMap)])

    assert {(permission.resource, permission.verb) for permission in permissions if not permission.rare} == {
        ("secrets", "watch"),
        ("secrets", "create"),
        ("secrets", "update"),
    }
    assert {(permission.resource, permission.verb) for permission in permissions if permission.rare} == {
        ("secrets", "get"),
        ("secrets", "list"),
        ("configmaps/finalizers", "update"),
    }
    assert "OwnerReferencesPermissionEnforcement" in next(
        permission.rare for permission in permissions if permission.resource == "configmaps/finalizers"
    )


def test_finalizers_are_granted_without_reads_because_only_admission_asks_for_them() -> None:
    declared = allow(ConfigMap, "update", subresource="finalizers", namespaces=("a",))

    assert resolved([], declared) == ["update configmaps/finalizers in a"]
