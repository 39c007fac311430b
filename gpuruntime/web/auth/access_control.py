"""Who may come in: credentials, the places where none are needed, and what a caller lacks."""

import logging
from collections.abc import Mapping
from enum import Enum
from typing import Final

from aiohttp import web
from multidict import CIMultiDictProxy

from gpuruntime.control import HttpAddress
from gpuruntime.web.auth.origin import refuse_other_machines, refuse_other_sites
from gpuruntime.web.auth.scopes import Authenticator
from gpuruntime.web.server.errors import CODES, ApiError
from gpuruntime.web.server.route import Caller, Scope

__all__ = ["DEVELOPER", "Access", "AccessControl", "UnguardedAddressError", "decide_access", "require"]

_LOG = logging.getLogger(__name__)
DEVELOPER: Final = Caller("development", Scope.OPERATOR)
"""Who calls without credentials in development mode."""
_ANYBODY: Final = Caller("anonymous", Scope.OPERATOR)
_REALM: Final = 'Bearer realm="gpuruntime"'


class UnguardedAddressError(Exception):
    """The API would be open to whoever reaches its address; the message says what to do."""


class Access(Enum):
    """How callers come in."""

    CREDENTIALS = "credentials"
    """Every request needs a bearer token."""
    DEVELOPMENT = "development"
    """Requests from this machine are the development operator's."""
    OPEN = "open"
    """Everybody may do everything, which somebody asked for in so many words."""


def decide_access(address: HttpAddress, *, authenticated: bool, allow_unauthenticated: bool) -> Access:
    """How callers come in at an address. `authenticated` says that there is something that knows tokens.

    Raises:
        UnguardedAddressError: other machines reach the address, nothing knows tokens, and nobody allowed it.
    """
    if authenticated:
        return Access.CREDENTIALS
    if address.is_loopback:
        return Access.DEVELOPMENT
    if allow_unauthenticated:
        return Access.OPEN
    raise UnguardedAddressError(
        f"address {address.host}:{address.port} can be reached by other machines, and nothing is set up that knows"
        " callers: give it tokens (a token file or TokenReview), listen on 127.0.0.1, or allow unauthenticated requests"
    )


class AccessControl:
    """Lets callers in.

    Guarantees:
        Where no credentials are needed, no page of another site gets in through a browser. Credentials that are given
        are never ignored: unknown ones are refused in every mode.

    Caveats:
        With Access.OPEN it is not known by which names we are called, so the header Host is believed: a page whose name
        was given our address after the browser had loaded it gets in, as anybody does.
    """

    def __init__(self, access: Access, *authenticators: Authenticator) -> None:
        self._access = access
        self._authenticators = authenticators
        if access is Access.OPEN:
            _LOG.warning("no credentials are asked for: whoever reaches the API may do everything")

    async def admit(self, request: web.Request) -> Caller:
        """Who sent a request.

        Raises:
            ApiError: 401 if that cannot be told, 403 if it comes from a place from where nobody gets in.
            KubeError: those who know cannot be asked now.
        """
        if self._access is Access.DEVELOPMENT:
            await refuse_other_machines(request)
        token = _bearer_token(request.headers)
        if token is not None:
            return await self._owner(token)
        if self._access is Access.CREDENTIALS:
            raise _unauthorized("expected the header `Authorization: Bearer TOKEN`, got none")
        refuse_other_sites(request.headers)
        return DEVELOPER if self._access is Access.DEVELOPMENT else _ANYBODY

    async def _owner(self, token: str) -> Caller:
        for authenticator in self._authenticators:
            caller = await authenticator.authenticate(token)
            if caller is not None:
                return caller
        raise _unauthorized("the bearer token is not known here, or not any more", error="invalid_token")


def require(caller: Caller, scope: Scope) -> None:
    """Pass if a caller may do what needs this scope.

    Raises:
        ApiError: 403, which names the scope.
    """
    if caller.scope < scope:
        needed, had = scope.name.lower(), caller.scope.name.lower()
        message = f"caller {caller.name} has scope {had}, expected {needed} for this"
        header = f'{_REALM}, error="insufficient_scope", scope="{needed}"'
        raise ApiError(403, CODES[403], message, headers={"WWW-Authenticate": header})


def _bearer_token(headers: "CIMultiDictProxy[str]") -> str | None:
    """The token that a request carries; None if it has no credentials."""
    found = headers.getall("Authorization", [])
    if not found:
        return None
    scheme, _, token = found[0].partition(" ")
    if len(found) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise _unauthorized(
            "expected one header `Authorization: Bearer TOKEN`, got another kind", error="invalid_request"
        )
    return token.strip()


def _unauthorized(message: str, *, error: str = "") -> ApiError:
    challenge: Mapping[str, str] = {"WWW-Authenticate": _REALM + (f', error="{error}"' if error else "")}
    return ApiError(401, CODES[401], message, headers=challenge)
