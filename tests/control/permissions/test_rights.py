from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.permissions.rights import Right, least, policy_rules
from gpuruntime.kube.builtin.rbac import PolicyRule

RIGHTS = st.builds(
    Right,
    group=st.sampled_from(["", "apps"]),
    resource=st.sampled_from(["pods", "pods/status", "secrets"]),
    verb=st.sampled_from(["get", "list", "create"]),
    namespace=st.sampled_from(["", "a", "b"]),
    name=st.sampled_from(["", "one", "two"]),
    rare=st.sampled_from(["", "seldom"]),
)


def granted_by(rules: tuple[PolicyRule, ...], right: Right) -> bool:
    """What the authorizer of the API server says, namespaces aside."""
    return any(
        right.verb in rule.verbs
        and right.group in rule.api_groups
        and right.resource in rule.resources
        and (not rule.resource_names or right.name in rule.resource_names)
        for rule in rules
    )


def test_a_right_to_everything_of_a_sort_covers_one_of_it_and_not_the_reverse() -> None:
    wide, narrow = Right("", "pods", "get"), Right("", "pods", "get", "a", "one")

    assert wide.covers(narrow)
    assert not narrow.covers(wide)
    assert not wide.covers(Right("", "pods/status", "get"))
    assert not wide.covers(Right("apps", "pods", "get"))


def test_a_right_reads_like_a_sentence() -> None:
    assert str(Right("apps", "deployments/scale", "get", "a", "web")) == "get deployments/scale.apps 'web' in a"
    assert str(Right("", "nodes", "list")) == "list nodes everywhere"


def test_what_somebody_needs_in_every_run_is_not_rare() -> None:
    (once,) = least([Right("", "pods", "get", rare="seldom"), Right("", "pods", "get", "a")])
    (twice,) = least([Right("", "pods", "get", rare="seldom"), Right("", "pods", "get", rare="at night")])

    assert once.rare == ""
    assert twice.rare == "at night; seldom"


@given(st.lists(RIGHTS))
def test_the_least_rights_allow_the_same_and_none_of_them_is_idle(rights: list[Right]) -> None:
    kept = least(rights)

    assert set(kept) <= set(rights)
    assert all(any(wide.covers(right) for wide in kept) for right in rights)
    assert not any(one.covers(other) for one in kept for other in kept if one is not other)
    assert repr(kept) == repr(least(reversed(rights)))


@given(st.lists(RIGHTS), RIGHTS)
def test_rules_grant_these_rights_and_no_others(rights: list[Right], asked: Right) -> None:
    everywhere = [Right(right.group, right.resource, right.verb, name=right.name) for right in rights]
    asked = Right(asked.group, asked.resource, asked.verb, name=asked.name)

    rules = policy_rules(everywhere)

    assert granted_by(rules, asked) == any(right.covers(asked) for right in everywhere)
    assert rules == policy_rules(list(reversed(everywhere)))


def test_resources_with_the_same_verbs_share_a_rule_and_verbs_are_in_the_usual_order() -> None:
    rights = [Right("", resource, verb) for resource in ("secrets", "pods") for verb in ("watch", "list", "approve")]

    rules = policy_rules([*rights, Right("", "pods", "get", name="one")])

    assert rules == (
        PolicyRule(("list", "watch", "approve"), ("",), ("pods", "secrets")),
        PolicyRule(("get",), ("",), ("pods",), ("one",)),
    )
