"""Permissions: one verb on one resource each, and the fewest RBAC rules that grant a set of them."""

from collections.abc import Iterable
from typing import Final

from attrs import evolve, field, frozen

from gpuruntime.kube.builtin.rbac import PolicyRule

__all__ = ["WRITE_VERBS", "Permission", "least", "policy_rules"]

WRITE_VERBS: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_ORDER: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@frozen(order=True)
class Permission:
    """One verb on one resource; a subresource is a resource of its own ("widgets/status").

    `namespace` is "" for all namespaces and for what has none, `name` is "" for every object. `rare` says when the
    permission is used, if not in every run; it takes no part in comparisons.
    """

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""
    rare: str = field(default="", eq=False)

    def covers(self, other: "Permission") -> bool:
        """Whether this permission includes the other one."""
        return (
            (self.group, self.resource, self.verb) == (other.group, other.resource, other.verb)
            and self.namespace in {"", other.namespace}
            and self.name in {"", other.name}
        )

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name!r}" if self.name else ""
        return f"{self.verb} {resource}{named} {f'in {self.namespace}' if self.namespace else 'everywhere'}"


def least(permissions: Iterable[Permission]) -> tuple[Permission, ...]:
    """The same permissions, sorted, without those that others cover. One is rare if every declaration of it is."""
    reasons: dict[Permission, list[str]] = {}
    for permission in permissions:
        reasons.setdefault(permission, []).append(permission.rare)
    wide = [
        permission
        for permission in reasons
        if not any(other.covers(permission) for other in reasons if other != permission)
    ]
    kept = []
    for permission in sorted(wide):
        given_reasons = [reason for other, given in reasons.items() if permission.covers(other) for reason in given]
        kept.append(evolve(permission, rare="; ".join(sorted(set(given_reasons))) if all(given_reasons) else ""))
    return tuple(kept)


def policy_rules(permissions: Iterable[Permission]) -> tuple[PolicyRule, ...]:
    """The rules of a role that grants exactly these permissions, in a deterministic order.

    Resources of one group with the same verbs share a rule. Namespaces are ignored: a role has one, or all.
    """
    names: dict[tuple[str, str, str], set[str]] = {}
    for permission in permissions:
        names.setdefault((permission.group, permission.resource, permission.verb), set()).add(permission.name)
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for (group, resource, verb), objects in names.items():
        limit = () if "" in objects else tuple(sorted(objects))
        verbs.setdefault((group, resource, limit), set()).add(verb)
    resources: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, resource, limit), allowed in sorted(verbs.items()):
        resources.setdefault((group, limit, tuple(sorted(allowed, key=_place))), []).append(resource)
    return tuple(
        PolicyRule(verbs=allowed, api_groups=(group,), resources=tuple(together), resource_names=limit)
        for (group, limit, allowed), together in resources.items()
    )


def _place(verb: str) -> tuple[int, str]:
    return (_ORDER.index(verb) if verb in _ORDER else len(_ORDER)), verb
