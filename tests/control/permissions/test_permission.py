from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.permissions.permission import Permission, least, policy_rules
from gpuruntime.kube.builtin.rbac import PolicyRule

RIGHTS = st.builds(
    Permission,
    group=st.sampled_from(["", "apps"]),
    resource=st.sampled_from(["pods", "pods/status", "secrets"]),
    verb=st.sampled_from(["get", "list", "create"]),
    namespace=st.sampled_from(["", "a", "b"]),
    name=st.sampled_from(["", "one", "two"]),
    rare=st.sampled_from(["", "seldom"]),
)


def granted_by(rules: tuple[PolicyRule, ...], permission: Permission) -> bool:
    """What the authorizer of the API server says, namespaces aside."""
    return any(
        permission.verb in rule.verbs
        and permission.group in rule.api_groups
        and permission.resource in rule.resources
        and (not rule.resource_names or permission.name in rule.resource_names)
        for rule in rules
    )


def test_a_right_to_everything_of_a_sort_covers_one_of_it_and_not_the_reverse() -> None:
    wide, narrow = Permission("", "pods", "get"), Permission("", "pods", "get", "a", "one")

    assert wide.covers(narrow)
    assert not narrow.covers(wide)
    assert not wide.covers(Permission("", "pods/status", "get"))
    assert not wide.covers(Permission("apps", "pods", "get"))


def test_a_right_reads_like_a_sentence() -> None:
    assert str(Permission("apps", "deployments/scale", "get", "a", "web")) == "get deployments/scale.apps 'web' in a"
    assert str(Permission("", "nodes", "list")) == "list nodes everywhere"


def test_what_one_declaration_needs_in_every_run_is_not_rare() -> None:
    (once,) = least([Permission("", "pods", "get", rare="seldom"), Permission("", "pods", "get", "a")])
    (twice,) = least([Permission("", "pods", "get", rare="seldom"), Permission("", "pods", "get", rare="at night")])

    assert once.rare == ""
    assert twice.rare == "at night; seldom"


@given(st.lists(RIGHTS))
def test_the_least_permissions_allow_the_same_and_none_of_them_is_idle(permissions: list[Permission]) -> None:
    kept = least(permissions)

    assert set(kept) <= set(permissions)
    assert all(any(wide.covers(permission) for wide in kept) for permission in permissions)
    assert not any(one.covers(other) for one in kept for other in kept if one is not other)
    assert repr(kept) == repr(least(reversed(permissions)))


@given(st.lists(RIGHTS), RIGHTS)
def test_rules_grant_these_permissions_and_no_others(permissions: list[Permission], asked: Permission) -> None:
    everywhere = [
        Permission(permission.group, permission.resource, permission.verb, name=permission.name)
        for permission in permissions
    ]
    asked = Permission(asked.group, asked.resource, asked.verb, name=asked.name)

    rules = policy_rules(everywhere)

    assert granted_by(rules, asked) == any(permission.covers(asked) for permission in everywhere)
    assert rules == policy_rules(list(reversed(everywhere)))


def test_resources_with_the_same_verbs_share_a_rule_and_verbs_are_in_the_usual_order() -> None:
    permissions = [
        Permission("", resource, verb) for resource in ("secrets", "pods") for verb in ("watch", "list", "approve")
    ]

    rules = policy_rules([*permissions, Permission("", "pods", "get", name="one")])

    assert rules == (
        PolicyRule(("list", "watch", "approve"), ("",), ("pods", "secrets")),
        PolicyRule(("get",), ("",), ("pods",), ("one",)),
    )
