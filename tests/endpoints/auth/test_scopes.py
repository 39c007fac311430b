import pytest

from gpuruntime.endpoints.auth.scopes import GrantError, parse_grants, parse_scope
from gpuruntime.endpoints.server.route import Scope
from gpuruntime.kube.builtin.authentication import UserInfo

GRANTS = parse_grants(
    "user:alice=read",
    "user:carol=access",
    "group:system:serviceaccounts:platform=write",
    "group:admins=operator",
    "group:support=read+access",
)


@pytest.mark.parametrize(
    ("user", "scope"),
    [
        (UserInfo("alice"), Scope.READ),
        (UserInfo("alice", groups=("admins",)), Scope.OPERATOR),
        (UserInfo("bot", groups=("system:authenticated", "system:serviceaccounts:platform")), Scope.WRITE),
        (UserInfo("admins"), Scope.NONE),
        (UserInfo("carol"), Scope.ACCESS),
        (UserInfo("carol", groups=("admins",)), Scope.OPERATOR | Scope.ACCESS),
        (UserInfo("dave", groups=("support", "system:serviceaccounts:platform")), Scope.WRITE | Scope.ACCESS),
        (UserInfo("bob", groups=("alice",)), Scope.NONE),
    ],
)
def test_a_user_has_all_scopes_of_its_grants(user: UserInfo, scope: Scope) -> None:
    assert GRANTS.scope_of(user) == scope


@pytest.mark.parametrize(
    "text",
    [
        "alice=read",
        "user:=read",
        "user:alice",
        "robot:alice=read",
        "user:alice=root",
        "user:alice=none",
        "user:alice=read+write",
        "",
    ],
)
def test_a_malformed_grant_is_rejected(text: str) -> None:
    with pytest.raises(GrantError):
        parse_grants(text)


def test_one_subject_has_one_grant() -> None:
    with pytest.raises(GrantError, match="user alice"):
        parse_grants("user:alice=read", "user:alice=write")


def test_scopes_are_parsed_by_name() -> None:
    assert [parse_scope(text) for text in ("read", "write", "operator")] == [Scope.READ, Scope.WRITE, Scope.OPERATOR]
    assert parse_scope("write+access") == Scope.WRITE | Scope.ACCESS


def test_no_scope_of_the_api_includes_access_and_access_includes_none_of_them() -> None:
    levels = (Scope.READ, Scope.WRITE, Scope.OPERATOR)

    assert not any(Scope.ACCESS in level or level in Scope.ACCESS for level in levels)
    assert Scope.READ in Scope.WRITE
    assert Scope.WRITE in Scope.OPERATOR
    assert [str(level | Scope.ACCESS) for level in levels] == ["read+access", "write+access", "operator+access"]
