"""RBAC objects that grant permissions to a ServiceAccount: a Role for each namespace, a ClusterRole for the rest."""

from collections.abc import Iterable
from typing import Protocol

from gpuruntime.control.permissions.permission import Permission, policy_rules
from gpuruntime.kube.builtin.rbac import GROUP, ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject
from gpuruntime.meta.names import is_dns_label, is_dns_subdomain
from gpuruntime.meta.objects import ObjectMeta

__all__ = ["HasPermissions", "RoleObject", "roles_for", "roles_of"]

RoleObject = ClusterRole | ClusterRoleBinding | Role | RoleBinding


class HasPermissions(Protocol):
    """Something that knows which permissions it needs, such as a `Manager`."""

    @property
    def permissions(self) -> tuple[Permission, ...]: ...


def roles_of(process: HasPermissions, *, account: str, namespace: str) -> tuple[RoleObject, ...]:
    """The roles that a process needs, bound to its ServiceAccount; the process need not run, nor a cluster be there.

    Guarantees: see `required_permissions` for what is granted and `roles_for` for the objects.

    Raises:
        PermissionsError: a declaration holds wherever its kind is watched, and it is not watched.
        ValueError: the account or the namespace is no valid name.
    """
    return roles_for(process.permissions, account=account, namespace=namespace)


def roles_for(permissions: Iterable[Permission], *, account: str, namespace: str) -> tuple[RoleObject, ...]:
    """A ClusterRole for what holds everywhere, a Role for each namespace, each followed by its binding.

    All of them are named "namespace:account", so that accounts of one name in several namespaces do not share roles.
    The order is deterministic.

    Raises:
        ValueError: the account or the namespace is no valid name.
    """
    if not is_dns_subdomain(account):
        raise ValueError(f"expected the name of a ServiceAccount, got {account!r}")
    if not is_dns_label(namespace):
        raise ValueError(f"expected the name of the namespace of ServiceAccount {account}, got {namespace!r}")
    name = f"{namespace}:{account}"
    subjects = (Subject("ServiceAccount", account, namespace),)
    by_namespace: dict[str, list[Permission]] = {}
    for permission in permissions:
        by_namespace.setdefault(permission.namespace, []).append(permission)
    objects: list[RoleObject] = []
    for scope in sorted(by_namespace):
        rules, meta = policy_rules(by_namespace[scope]), ObjectMeta(name=name, namespace=scope)
        kind = "Role" if scope else "ClusterRole"
        reference = RoleRef(kind, name, GROUP)
        if scope:
            objects += [Role(meta, rules=rules), RoleBinding(meta, role_ref=reference, subjects=subjects)]
        else:
            objects += [ClusterRole(meta, rules=rules), ClusterRoleBinding(meta, role_ref=reference, subjects=subjects)]
    return tuple(objects)
