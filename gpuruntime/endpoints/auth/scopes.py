"""Scopes and grants: which users and groups of the cluster have which scope, and the protocol of authenticators."""

from functools import reduce
from operator import or_
from typing import Final, Protocol

from attrs import frozen

from gpuruntime.endpoints.server.route import Caller, Scope
from gpuruntime.kube.builtin.authentication import UserInfo
from gpuruntime.meta import EMPTY, FrozenDict

__all__ = ["Authenticator", "GrantError", "Grants", "parse_grants", "parse_scope"]

_LEVELS: Final = (Scope.READ, Scope.WRITE, Scope.OPERATOR)
_SCOPES: Final = {str(scope): scope for scope in (*_LEVELS, Scope.ACCESS, *(level | Scope.ACCESS for level in _LEVELS))}


class GrantError(ValueError):
    """A grant or a scope is malformed."""


class Authenticator(Protocol):
    """Authenticates callers by bearer token."""

    async def authenticate(self, token: str) -> Caller | None:
        """The caller that a token belongs to; None if the token is invalid.

        Raises:
            KubeError: the token cannot be checked now.
        """


@frozen
class Grants:
    """The scopes of users and groups of the cluster. A user without a grant has Scope.NONE."""

    users: FrozenDict[str, Scope] = EMPTY
    groups: FrozenDict[str, Scope] = EMPTY

    def scope_of(self, user: UserInfo) -> Scope:
        """The union of the grants of the user and its groups."""
        found = [self.users.get(user.username), *(self.groups.get(group) for group in user.groups)]
        return reduce(or_, (scope for scope in found if scope is not None), Scope.NONE)


def parse_scope(text: str) -> Scope:
    """Read a scope such as "read", "operator", "access" or "write+access".

    Raises:
        GrantError: it is none of these.
    """
    scope = _SCOPES.get(text)
    if scope is None:
        raise GrantError(f"scope {text!r}: expected one of {', '.join(_SCOPES)}")
    return scope


def parse_grants(*texts: str) -> Grants:
    """Read grants such as "group:system:serviceaccounts:platform=write" and "user:alice=read".

    Raises:
        GrantError: a grant is malformed, or a subject has two.
    """
    found: dict[str, dict[str, Scope]] = {"user": {}, "group": {}}
    for text in texts:
        subject, _, scope = text.rpartition("=")
        kind, _, name = subject.partition(":")
        if kind not in found or not name:
            raise GrantError(f"grant {text!r}: expected user:NAME=SCOPE or group:NAME=SCOPE")
        if name in found[kind]:
            raise GrantError(f"grant {text!r}: expected one grant for {kind} {name}, got two")
        found[kind][name] = parse_scope(scope)
    return Grants(FrozenDict(found["user"]), FrozenDict(found["group"]))
