"""Rights: single things that somebody may do, and the fewest rules that grant them."""

from collections.abc import Iterable
from typing import Final

from attrs import evolve, field, frozen

from gpuruntime.kube.builtin.rbac import PolicyRule

__all__ = ["WRITE_VERBS", "Right", "least", "policy_rules"]

WRITE_VERBS: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_ORDER: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


@frozen(order=True)
class Right:
    """One verb on one resource; a subresource is a resource of its own ("widgets/status").

    `namespace` is "" for all namespaces and for what has none, `name` is "" for every object. `rare` tells when the
    right is needed if that is not in every run; it takes no part in comparisons.
    """

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""
    rare: str = field(default="", eq=False)

    def covers(self, other: "Right") -> bool:
        """Whether whoever has this right may do what the other one allows."""
        return (
            (self.group, self.resource, self.verb) == (other.group, other.resource, other.verb)
            and self.namespace in {"", other.namespace}
            and self.name in {"", other.name}
        )

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name!r}" if self.name else ""
        return f"{self.verb} {resource}{named} {f'in {self.namespace}' if self.namespace else 'everywhere'}"


def least(rights: Iterable[Right]) -> tuple[Right, ...]:
    """The same rights, sorted, without those that others of them cover; rare is what all who ask for it call rare."""
    reasons: dict[Right, list[str]] = {}
    for right in rights:
        reasons.setdefault(right, []).append(right.rare)
    wide = [right for right in reasons if not any(other.covers(right) for other in reasons if other != right)]
    kept = []
    for right in sorted(wide):
        told = [reason for other, given in reasons.items() if right.covers(other) for reason in given]
        kept.append(evolve(right, rare="; ".join(sorted(set(told))) if all(told) else ""))
    return tuple(kept)


def policy_rules(rights: Iterable[Right]) -> tuple[PolicyRule, ...]:
    """The rules of a role that grants these rights and no others, in an order that depends on nothing but the rights.

    Resources of one group with the same verbs share a rule. Namespaces are not looked at: a role has one, or all.
    """
    names: dict[tuple[str, str, str], set[str]] = {}
    for right in rights:
        names.setdefault((right.group, right.resource, right.verb), set()).add(right.name)
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
