"""Who callers are: what they may do by name, and what tells a token's owner."""

from typing import Final, Protocol

from attrs import frozen

from gpuruntime.kube.builtin.authentication import UserInfo
from gpuruntime.meta import EMPTY, FrozenDict
from gpuruntime.web.server.route import Caller, Scope

__all__ = ["Authenticator", "GrantError", "Grants", "parse_grants", "parse_scope"]

_SCOPES: Final = {scope.name.lower(): scope for scope in Scope if scope is not Scope.NONE}


class GrantError(ValueError):
    """A grant or a scope is not written as it should be."""


class Authenticator(Protocol):
    """Something that knows whom a bearer token belongs to."""

    async def authenticate(self, token: str) -> Caller | None:
        """The owner; None if the token is not known here.

        Raises:
            KubeError: it cannot be told now.
        """


@frozen
class Grants:
    """What users and groups of the cluster may do here; whom nobody named may do nothing."""

    users: FrozenDict[str, Scope] = EMPTY
    groups: FrozenDict[str, Scope] = EMPTY

    def scope_of(self, user: UserInfo) -> Scope:
        """The widest of what the user and its groups may do."""
        found = [self.users.get(user.username), *(self.groups.get(group) for group in user.groups)]
        return max((scope for scope in found if scope is not None), default=Scope.NONE)


def parse_scope(text: str) -> Scope:
    """Read "read", "write" or "operator".

    Raises:
        GrantError: it is none of them.
    """
    scope = _SCOPES.get(text)
    if scope is None:
        raise GrantError(f"scope {text!r}: expected one of {', '.join(_SCOPES)}")
    return scope


def parse_grants(*texts: str) -> Grants:
    """Read grants such as "group:system:serviceaccounts:platform=write" and "user:alice=read".

    Raises:
        GrantError: one of them is neither, or two speak of the same subject.
    """
    found: dict[str, dict[str, Scope]] = {"user": {}, "group": {}}
    for text in texts:
        subject, _, scope = text.rpartition("=")
        kind, _, name = subject.partition(":")
        if kind not in found or not name:
            raise GrantError(f"grant {text!r}: expected user:NAME=SCOPE or group:NAME=SCOPE")
        if name in found[kind]:
            raise GrantError(f"grant {text!r}: {kind} {name} has one already, expected one each")
        found[kind][name] = parse_scope(scope)
    return Grants(FrozenDict(found["user"]), FrozenDict(found["group"]))
