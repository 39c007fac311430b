import pytest

from gpuruntime.control.permissions.declarations import (
    allow,
    allow_children,
    allow_events,
    allow_finalizers,
    allow_rule,
    allow_status,
)
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import ConfigMap, Namespace, Secret
from gpuruntime.kube.builtin.nodes import Node


def verbs(declaration: object) -> list[tuple[str, tuple[str, ...], bool]]:
    parts = getattr(declaration, "parts", ())
    return [(part.resource, part.verbs, bool(part.rare)) for part in parts]


def test_a_replacing_owner_creates_and_updates_and_reads_only_what_it_did_not_know() -> None:
    assert verbs(allow_children(Secret)) == [("secrets", ("create", "update"), False), ("secrets", ("get",), True)]


def test_an_applying_owner_reads_and_patches_and_creates_by_patching() -> None:
    assert verbs(allow_children(Secret, mode="apply")) == [("secrets", ("get", "create", "patch"), False)]


def test_an_owner_may_finalize_where_its_children_are_or_everywhere_if_it_has_no_namespace() -> None:
    beside = allow_children(Secret, of=ConfigMap, namespaces=("a",)).parts[-1]
    above = allow_children(Secret, of=Namespace, namespaces=("a",)).parts[-1]

    assert (beside.resource, beside.verbs, beside.place) == ("configmaps/finalizers", ("update",), ("a",))
    assert (above.resource, above.verbs, above.place) == ("namespaces/finalizers", ("update",), ())


def test_a_status_is_patched_as_a_subresource() -> None:
    assert verbs(allow_status(Deployment)) == [("deployments/status", ("patch",), False)]


def test_finalizers_are_patched_with_the_object() -> None:
    (part,) = allow_finalizers(Deployment, namespaces=("a",)).parts

    assert (part.resource, part.verbs, part.place) == ("deployments", ("patch",), ("a",))


def test_events_about_what_has_no_namespace_are_in_the_default_one() -> None:
    assert {part.place for part in allow_events(Node).parts} == {("default",)}
    assert {part.place for part in allow_events(Deployment).parts} == {Deployment.KIND}
    assert {(part.group, part.verbs) for part in allow_events(Node).parts} == {
        ("events.k8s.io", ("create",)),
        ("events.k8s.io", ("patch",)),
        ("", ("patch",)),
    }


def test_a_subresource_may_be_created_for_named_objects_alone() -> None:
    (part,) = allow(Deployment, "create", subresource="scale", names=("web",)).parts

    assert (part.resource, part.names) == ("deployments/scale", ("web",))


def test_declarations_that_no_role_could_express_are_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"v1 Secret: create .*names a,"):
        allow(Secret, "get", "create", names=("a",))
    with pytest.raises(ValueError, match="verbs for v1 Secret"):
        allow(Secret)
    with pytest.raises(ValueError, match=r"v1 Node .*got a"):
        allow(Node, "get", namespaces=("a",))
    with pytest.raises(ValueError, match=r"namespaces for v1 Secret, got \('',\)"):
        allow(Secret, "get", namespaces=("",))
    with pytest.raises(ValueError, match="namespaces for v1 Secret, got 'default'"):
        allow(Secret, "get", namespaces="default")
    with pytest.raises(ValueError, match=r"'pods' .*got '\*'"):
        allow_rule("", "pods", ["*"])
    with pytest.raises(ValueError, match="kinds"):
        allow_events()
