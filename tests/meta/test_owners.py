import pytest
from attrs import evolve

from gpuruntime.meta.dynamic import PartialObject
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import ObjectMeta, OwnerReference
from gpuruntime.meta.owners import AlreadyOwnedError, OwnerError, controller_of, is_controlled_by, set_controller

WIDGET = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)
CLUSTER_WIDGET = ResourceKind("example.org", "v1", "ClusterWidget", "clusterwidgets", namespaced=False)

OWNER = PartialObject(WIDGET, ObjectMeta(name="parent", namespace="ns", uid="uid-1"))
CHILD = ObjectMeta(name="child", namespace="ns")
REFERENCE = OwnerReference("example.org/v1", "Widget", "parent", "uid-1", controller=True, block_owner_deletion=True)
BYSTANDER = OwnerReference("v1", "ConfigMap", "other", "uid-9")


def test_a_child_without_owner_gets_a_blocking_controller_reference() -> None:
    child = evolve(CHILD, owner_references=(BYSTANDER,))

    owned = set_controller(child, OWNER)

    assert owned.owner_references == (BYSTANDER, REFERENCE)
    assert controller_of(owned) == REFERENCE
    assert is_controlled_by(owned, OWNER)


def test_setting_the_controller_again_changes_nothing() -> None:
    owned = set_controller(CHILD, OWNER)

    assert set_controller(owned, OWNER) is owned


def test_another_controller_is_never_replaced() -> None:
    rival = OwnerReference("apps/v1", "ReplicaSet", "rival", "uid-2", controller=True)
    child = evolve(CHILD, owner_references=(rival,))

    with pytest.raises(AlreadyOwnedError, match=r"ns/child .*ReplicaSet rival .*uid-2") as caught:
        set_controller(child, OWNER)

    assert caught.value.owner == rival
    assert not is_controlled_by(child, OWNER)


@pytest.mark.parametrize(
    "stale",
    [
        evolve(REFERENCE, uid="uid-0"),
        evolve(REFERENCE, api_version="example.org/v1beta1"),
        evolve(REFERENCE, controller=None),
        evolve(REFERENCE, block_owner_deletion=False),
    ],
)
def test_an_outdated_reference_to_the_same_owner_is_replaced_in_place(stale: OwnerReference) -> None:
    child = evolve(CHILD, owner_references=(stale, BYSTANDER, evolve(stale, uid="uid-00", controller=None)))

    owned = set_controller(child, OWNER)

    assert owned.owner_references == (REFERENCE, BYSTANDER)


def test_an_object_of_the_same_name_with_another_uid_is_not_the_controller() -> None:
    child = evolve(CHILD, owner_references=(evolve(REFERENCE, uid="uid-0"),))

    assert not is_controlled_by(child, OWNER)


def test_an_owner_without_the_controller_flag_is_not_the_controller() -> None:
    child = evolve(CHILD, owner_references=(evolve(REFERENCE, controller=None),))

    assert controller_of(child) is None
    assert not is_controlled_by(child, OWNER)


@pytest.mark.parametrize(("namespace", "place"), [("", "cluster-scoped"), ("elsewhere", "namespace elsewhere")])
def test_a_namespaced_owner_owns_in_its_namespace_only(namespace: str, place: str) -> None:
    with pytest.raises(OwnerError, match=f"namespace ns, got .*{place}"):
        set_controller(evolve(CHILD, namespace=namespace), OWNER)


@pytest.mark.parametrize("namespace", ["", "ns"])
def test_a_cluster_scoped_owner_owns_everywhere(namespace: str) -> None:
    owner = PartialObject(CLUSTER_WIDGET, ObjectMeta(name="parent", uid="uid-1"))

    owned = set_controller(evolve(CHILD, namespace=namespace), owner)

    assert is_controlled_by(owned, owner)


def test_an_owner_that_was_never_created_cannot_own() -> None:
    with pytest.raises(OwnerError, match=r"uid.* ns/child"):
        set_controller(CHILD, PartialObject(WIDGET, ObjectMeta(name="parent", namespace="ns")))
