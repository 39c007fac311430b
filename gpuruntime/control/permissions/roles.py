"""The objects that grant rights to a ServiceAccount: a role for each namespace, and one for everywhere."""

from collections.abc import Iterable
from typing import Protocol

from gpuruntime.control.permissions.rights import Right, policy_rules
from gpuruntime.kube.builtin.rbac import GROUP, ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject
from gpuruntime.meta.names import is_dns_label, is_dns_subdomain
from gpuruntime.meta.objects import ObjectMeta

__all__ = ["HasRights", "RoleObject", "permissions_of", "roles_for"]

RoleObject = ClusterRole | ClusterRoleBinding | Role | RoleBinding


class HasRights(Protocol):
    """What knows which rights it needs: a `Manager`, as a rule."""

    @property
    def rights(self) -> tuple[Right, ...]: ...


def permissions_of(process: HasRights, *, account: str, namespace: str) -> tuple[RoleObject, ...]:
    """The roles that a process needs, bound to its ServiceAccount; the process need not run, nor a cluster be there.

    Guarantees: see `rights_of` for what is granted and `roles_for` for the objects.

    Raises:
        PermissionsError: what is declared does not tell which rights are needed.
        ValueError: the account or the namespace can have no such name.
    """
    return roles_for(process.rights, account=account, namespace=namespace)


def roles_for(rights: Iterable[Right], *, account: str, namespace: str) -> tuple[RoleObject, ...]:
    """A ClusterRole for what holds everywhere, a Role for each namespace, each followed by its binding.

    All of them are called "namespace:account", so that accounts of one name in several namespaces stay apart. The order
    depends on nothing but the rights.

    Raises:
        ValueError: the account or the namespace can have no such name.
    """
    if not is_dns_subdomain(account):
        raise ValueError(f"expected the name of a ServiceAccount, got {account!r}")
    if not is_dns_label(namespace):
        raise ValueError(f"expected the name of the namespace of ServiceAccount {account}, got {namespace!r}")
    name = f"{namespace}:{account}"
    subjects = (Subject("ServiceAccount", account, namespace),)
    places: dict[str, list[Right]] = {}
    for right in rights:
        places.setdefault(right.namespace, []).append(right)
    objects: list[RoleObject] = []
    for place in sorted(places):
        rules, meta = policy_rules(places[place]), ObjectMeta(name=name, namespace=place)
        kind = "Role" if place else "ClusterRole"
        reference = RoleRef(kind, name, GROUP)
        if place:
            objects += [Role(meta, rules=rules), RoleBinding(meta, role_ref=reference, subjects=subjects)]
        else:
            objects += [ClusterRole(meta, rules=rules), ClusterRoleBinding(meta, role_ref=reference, subjects=subjects)]
    return tuple(objects)
