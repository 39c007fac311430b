from collections.abc import Sequence

import pytest

from gpuruntime.control.informers.informer import InformerScope
from gpuruntime.control.informers.storage import eager
from gpuruntime.control.permissions.declarations import Declaration, owns, records_events, rule, uses, writes_status
from gpuruntime.control.permissions.resolving import LeaseName, PermissionsError, rights_of
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.kube.builtin.nodes import Node
from gpuruntime.kube.forms import metadata_only
from gpuruntime.meta.field_selectors import parse_field_selector
from gpuruntime.meta.label_selectors import parse_selector

MAPS = eager(ConfigMap)


def told(scopes: Sequence[InformerScope[ConfigMap]], *declarations: Declaration) -> list[str]:
    return [str(right) for right in rights_of(scopes, declarations)]


def test_a_watch_of_all_namespaces_holds_everywhere_and_one_of_some_in_each_of_them() -> None:
    assert told([InformerScope(MAPS)]) == ["list configmaps everywhere", "watch configmaps everywhere"]
    assert told([InformerScope(MAPS, ("a", "b"))]) == [
        "list configmaps in a",
        "list configmaps in b",
        "watch configmaps in a",
        "watch configmaps in b",
    ]


def test_metadata_needs_the_same_rights_as_whole_objects() -> None:
    whole = rights_of([InformerScope(eager(Node))], ())

    assert rights_of([InformerScope(eager(metadata_only(Node.KIND)))], ()) == whole


def test_a_watch_of_one_object_is_a_right_to_that_object() -> None:
    scope = InformerScope(MAPS, ("a",), fields=parse_field_selector("metadata.name=settings"))

    assert told([scope]) == ["list configmaps 'settings' in a", "watch configmaps 'settings' in a"]


def test_what_is_written_is_read_where_a_cache_is_to_show_it() -> None:
    assert told([InformerScope(MAPS, ("a",))], writes_status(ConfigMap)) == [
        "get configmaps in a",
        "list configmaps in a",
        "watch configmaps in a",
        "patch configmaps/status in a",
    ]


def test_what_is_written_is_read_where_a_cache_with_a_selector_is_to_show_it() -> None:
    scope = InformerScope(MAPS, labels=parse_selector("app=web"))

    assert "get configmaps everywhere" in told([scope], uses(ConfigMap, "create", "delete"))


def test_reads_are_limited_to_the_namespaces_and_names_of_the_writes() -> None:
    everywhere, somewhere = [InformerScope(MAPS)], [InformerScope(MAPS, ("a", "b"))]

    assert "get configmaps 'x' in a" in told(everywhere, uses(ConfigMap, "delete", names=("x",), namespaces=("a",)))
    assert "get configmaps in a" in told(somewhere, uses(ConfigMap, "delete", namespaces=()))
    assert not [right for right in told(somewhere, uses(ConfigMap, "delete", namespaces=("c",))) if "get" in right]


def test_what_is_changed_may_be_read_to_tell_who_changes_it_back() -> None:
    assert told([], uses(Node, "patch", names=("one",))) == [
        "get nodes 'one' everywhere",
        "patch nodes 'one' everywhere",
    ]
    assert told([], uses(Node, "update", subresource="status"))[0] == "get nodes/status everywhere"
    assert told([], writes_status(Node)) == ["patch nodes/status everywhere"]


def test_declarations_hold_wherever_their_kind_is_watched() -> None:
    scopes = [InformerScope(MAPS, ("a",)), InformerScope(MAPS, ("b",), parse_selector("x=y"))]

    assert [right for right in told(scopes, records_events(ConfigMap)) if "create" in right] == [
        "create events.events.k8s.io in a",
        "create events.events.k8s.io in b",
    ]
    assert "create events.events.k8s.io everywhere" in told([*scopes, InformerScope(MAPS)], records_events(ConfigMap))


def test_a_declaration_about_what_nobody_watches_must_say_where() -> None:
    with pytest.raises(PermissionsError, match=r"apps/v1 Deployment is declared and not watched.* namespaces="):
        rights_of([], [owns(Deployment)])

    assert told([], owns(Deployment, namespaces=("a",))) == [
        "create deployments.apps in a",
        "get deployments.apps in a",
        "update deployments.apps in a",
    ]


def test_what_has_no_namespace_needs_none() -> None:
    assert told([], uses(Node, "delete")) == ["delete nodes everywhere"]
    assert told([], rule("authentication.k8s.io", "tokenreviews", ["create"])) == [
        "create tokenreviews.authentication.k8s.io everywhere"
    ]


def test_an_election_may_read_and_update_its_lease_alone_but_create_any() -> None:
    rights = rights_of([InformerScope(MAPS)], [], LeaseName("system", "leader"))

    assert [str(right) for right in rights if right.resource == "leases"] == [
        "create leases.coordination.k8s.io in system",
        "get leases.coordination.k8s.io 'leader' in system",
        "update leases.coordination.k8s.io 'leader' in system",
    ]
    assert not [right for right in rights if right.rare]


def test_rare_rights_say_when_they_are_needed() -> None:
    rights = rights_of([InformerScope(eager(Secret))], [owns(Secret, by=ConfigMap)])

    assert {(right.resource, right.verb) for right in rights if not right.rare} == {
        ("secrets", "watch"),
        ("secrets", "create"),
        ("secrets", "update"),
    }
    assert {(right.resource, right.verb) for right in rights if right.rare} == {
        ("secrets", "get"),
        ("secrets", "list"),
        ("configmaps/finalizers", "update"),
    }
    assert "OwnerReferencesPermissionEnforcement" in next(
        right.rare for right in rights if right.resource == "configmaps/finalizers"
    )


def test_finalizers_are_granted_without_reads_because_only_admission_asks_for_them() -> None:
    declared = uses(ConfigMap, "update", subresource="finalizers", namespaces=("a",))

    assert told([], declared) == ["update configmaps/finalizers in a"]
