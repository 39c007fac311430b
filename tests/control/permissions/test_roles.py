import pytest
from attrs import frozen

from gpuruntime.control.permissions.permission import Permission
from gpuruntime.control.permissions.roles import roles_for, roles_of
from gpuruntime.kube.builtin.rbac import ClusterRole, PolicyRule, Role, RoleBinding, RoleRef, Subject
from gpuruntime.meta import ObjectKey


@frozen
class Process:
    permissions: tuple[Permission, ...]


def test_each_namespace_has_a_role_and_everywhere_is_a_cluster_role() -> None:
    process = Process(
        (Permission("", "pods", "get", "b"), Permission("", "nodes", "list"), Permission("", "pods", "get", "a"))
    )

    objects = roles_of(process, account="worker", namespace="system")

    assert [(granted.kind.kind, granted.key) for granted in objects] == [
        ("ClusterRole", ObjectKey("", "system:worker")),
        ("ClusterRoleBinding", ObjectKey("", "system:worker")),
        ("Role", ObjectKey("a", "system:worker")),
        ("RoleBinding", ObjectKey("a", "system:worker")),
        ("Role", ObjectKey("b", "system:worker")),
        ("RoleBinding", ObjectKey("b", "system:worker")),
    ]


def test_a_role_grants_what_was_asked_for_to_the_account_alone() -> None:
    role, binding = roles_for([Permission("", "pods", "get", "a")], account="worker", namespace="system")

    assert isinstance(role, Role)
    assert role.rules == (PolicyRule(("get",), ("",), ("pods",)),)
    assert isinstance(binding, RoleBinding)
    assert binding.role_ref == RoleRef("Role", "system:worker", "rbac.authorization.k8s.io")
    assert binding.subjects == (Subject("ServiceAccount", "worker", "system"),)


def test_without_permissions_there_is_no_role() -> None:
    assert roles_for([], account="worker", namespace="system") == ()


def test_what_cannot_be_an_account_is_refused() -> None:
    with pytest.raises(ValueError, match="ServiceAccount, got 'a:b'"):
        roles_for([], account="a:b", namespace="system")
    with pytest.raises(ValueError, match="namespace of ServiceAccount worker, got ''"):
        roles_for([], account="worker", namespace="")


def test_an_everywhere_right_makes_a_cluster_role() -> None:
    granted, _ = roles_for([Permission("", "nodes", "list")], account="worker", namespace="system")

    assert isinstance(granted, ClusterRole)
    assert granted.rules == (PolicyRule(("list",), ("",), ("nodes",)),)
