import pytest
from attrs import frozen

from gpuruntime.control.permissions.rights import Right
from gpuruntime.control.permissions.roles import permissions_of, roles_for
from gpuruntime.kube.builtin.rbac import ClusterRole, PolicyRule, Role, RoleBinding, RoleRef, Subject
from gpuruntime.meta import ObjectKey


@frozen
class Process:
    rights: tuple[Right, ...]


def test_each_namespace_has_a_role_and_everywhere_is_a_cluster_role() -> None:
    process = Process((Right("", "pods", "get", "b"), Right("", "nodes", "list"), Right("", "pods", "get", "a")))

    objects = permissions_of(process, account="worker", namespace="system")

    assert [(granted.kind.kind, granted.key) for granted in objects] == [
        ("ClusterRole", ObjectKey("", "system:worker")),
        ("ClusterRoleBinding", ObjectKey("", "system:worker")),
        ("Role", ObjectKey("a", "system:worker")),
        ("RoleBinding", ObjectKey("a", "system:worker")),
        ("Role", ObjectKey("b", "system:worker")),
        ("RoleBinding", ObjectKey("b", "system:worker")),
    ]


def test_a_role_grants_what_was_asked_for_to_the_account_alone() -> None:
    role, binding = roles_for([Right("", "pods", "get", "a")], account="worker", namespace="system")

    assert isinstance(role, Role)
    assert role.rules == (PolicyRule(("get",), ("",), ("pods",)),)
    assert isinstance(binding, RoleBinding)
    assert binding.role_ref == RoleRef("Role", "system:worker", "rbac.authorization.k8s.io")
    assert binding.subjects == (Subject("ServiceAccount", "worker", "system"),)


def test_without_rights_there_is_no_role() -> None:
    assert roles_for([], account="worker", namespace="system") == ()


def test_what_cannot_be_an_account_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the name of a ServiceAccount, got 'a:b'"):
        roles_for([], account="a:b", namespace="system")
    with pytest.raises(ValueError, match="expected the name of the namespace of ServiceAccount worker, got ''"):
        roles_for([], account="worker", namespace="")


def test_an_everywhere_right_makes_a_cluster_role() -> None:
    granted, _ = roles_for([Right("", "nodes", "list")], account="worker", namespace="system")

    assert isinstance(granted, ClusterRole)
    assert granted.rules == (PolicyRule(("list",), ("",), ("nodes",)),)
