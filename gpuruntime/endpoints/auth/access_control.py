"""Access control: authenticates callers by bearer token, checks their scope, and keeps out pages of other web sites.

Where the API needs no credentials, a browser's place on the network is the credential. A page of another web site could
make a browser on this machine send requests, so the headers that browsers set are checked.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from multidict import CIMultiDictProxy

from gpuruntime.control import HttpAddress
from gpuruntime.control.serving import loopback_only
from gpuruntime.endpoints.auth.scopes import Authenticator
from gpuruntime.endpoints.server.errors import CODES, ApiError
from gpuruntime.endpoints.server.route import Caller, Scope

__all__ = [
    "DEVELOPER",
    "Access",
    "AccessControl",
    "UnguardedAddressError",
    "bearer_token",
    "decide_access",
    "guard_pages",
    "require",
    "unauthorized",
]

_LOG = logging.getLogger(__name__)
DEVELOPER: Final = Caller("development", Scope.ALL)
"""The caller of requests without credentials in development mode."""
_ANONYMOUS: Final = Caller("anonymous", Scope.ALL)
_REALM: Final = 'Bearer realm="gpuruntime"'
# "none" is an address that a person typed into the address bar.
_SAME_SITE: Final = frozenset({"same-origin", "none"})
_PROXY_HEADERS: Final = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host")
_PAGE_SCOPES: Final = {"metrics": Scope.READ, "debug": Scope.OPERATOR}


class UnguardedAddressError(Exception):
    """The API would serve other machines without authentication; the message says what to do."""


class Access(Enum):
    """Which requests need credentials."""

    CREDENTIALS = "credentials"
    """Every request needs a bearer token."""
    DEVELOPMENT = "development"
    """Requests from this machine need none, and have every scope."""
    OPEN = "open"
    """No request needs any, and all have every scope. It has to be allowed explicitly."""


def decide_access(address: HttpAddress, *, authenticated: bool, allow_unauthenticated: bool) -> Access:
    """The access mode for an address. `authenticated` says whether an authenticator is configured.

    Raises:
        UnguardedAddressError: other machines can reach the address, no authenticator is configured, and
            unauthenticated requests are not allowed.
    """
    if authenticated:
        return Access.CREDENTIALS
    if address.is_loopback:
        return Access.DEVELOPMENT
    if allow_unauthenticated:
        return Access.OPEN
    raise UnguardedAddressError(
        f"address {address.host}:{address.port} can be reached by other machines, and no authentication is configured:"
        " configure a token file or TokenReview, listen on 127.0.0.1, or allow unauthenticated requests"
    )


class AccessControl:
    """Authenticates the callers of requests.

    Guarantees:
        Where no credentials are needed, a page of another web site gets nothing through a browser. Credentials that a
        request has are never ignored: an unknown token is 401 in every mode.

    Caveats:
        With Access.OPEN the host names of the API are not known, so header Host is not checked, and DNS rebinding
        works: but then any caller has access anyway.
    """

    def __init__(self, access: Access, *authenticators: Authenticator) -> None:
        self._access = access
        self._authenticators = authenticators
        if access is Access.OPEN:
            _LOG.warning("authentication is off: every caller has every scope")

    async def authenticate(self, request: web.Request) -> Caller:
        """The caller of a request.

        Raises:
            ApiError: 401 without valid credentials, 403 for a request from another machine or web site.
            KubeError: the token cannot be reviewed now.
        """
        if self._access is Access.DEVELOPMENT:
            await _reject_other_machines(request)
        token = bearer_token(request.headers)
        if token is not None:
            return await self._owner(token)
        if self._access is Access.CREDENTIALS:
            raise unauthorized("expected header `Authorization: Bearer TOKEN`, got none")
        _reject_other_sites(request.headers)
        return DEVELOPER if self._access is Access.DEVELOPMENT else _ANONYMOUS

    async def _owner(self, token: str) -> Caller:
        for authenticator in self._authenticators:
            caller = await authenticator.authenticate(token)
            if caller is not None:
                return caller
        raise unauthorized("the bearer token is invalid, expired or revoked", error="invalid_token")


def require(caller: Caller, scope: Scope) -> None:
    """Check that a caller has a scope.

    Raises:
        ApiError: 403, which names the scope.
    """
    if scope not in caller.scope:
        message = f"caller {caller.name}: expected scope {scope} for this request, got {caller.scope}"
        header = f'{_REALM}, error="insufficient_scope", scope="{scope}"'
        raise ApiError(403, CODES[403], message, headers={"WWW-Authenticate": header})


def guard_pages(app: web.Application, access: AccessControl) -> None:
    """Require scope read for /metrics and scope operator for /debug. Probes need no credentials.

    Call it after `mount`, whose middleware turns errors into responses.
    """

    @web.middleware
    async def guarded(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        scope = _PAGE_SCOPES.get(request.path.strip("/").partition("/")[0])
        if scope is not None:
            require(await access.authenticate(request), scope)
        return await handler(request)

    app.middlewares.append(guarded)


async def _reject_other_machines(request: web.Request) -> None:
    """Check that a request came over the loopback interface, with a loopback name or address in header Host.

    Checking Host stops DNS rebinding: a page whose host name resolves to 127.0.0.1. A proxy on this machine that
    forwards requests of other machines is rejected by its headers.

    Raises:
        ApiError: 403.
    """
    if not await loopback_only(request):
        raise _forbidden(
            "sender and header Host: expected localhost or a loopback address, because no credentials are configured"
        )
    forwarded = next((name for name in _PROXY_HEADERS if name in request.headers), None)
    if forwarded is not None:
        raise _forbidden(f"header {forwarded}: expected none, because no credentials are configured")


def _reject_other_sites(headers: Mapping[str, str]) -> None:
    """Check that no browser sent the request, or that a page of this API did.

    Raises:
        ApiError: 403.
    """
    site = headers.get("Sec-Fetch-Site")
    if site is not None and site.lower() not in _SAME_SITE:
        raise _forbidden(f"header Sec-Fetch-Site: expected same-origin or none, got {site[:40]!r}")
    origin = headers.get("Origin")
    if origin is not None and _host(origin) != headers.get("Host", "").lower():
        raise _forbidden(f"header Origin: expected the origin of this API or none, got {origin[:80]!r}")


def _host(origin: str) -> str:
    """Host and port of an origin; "" if it has none, such as "null"."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def bearer_token(headers: "CIMultiDictProxy[str]") -> str | None:
    """The bearer token of a request; None if it has no credentials.

    Raises:
        ApiError: 401, the header has another form.
    """
    found = headers.getall("Authorization", [])
    if not found:
        return None
    scheme, _, token = found[0].partition(" ")
    if len(found) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise unauthorized(
            "expected one header `Authorization: Bearer TOKEN`, got another form", error="invalid_request"
        )
    return token.strip()


def unauthorized(message: str, *, error: str = "") -> ApiError:
    """A 401 response, with the challenge that it must have."""
    challenge: Mapping[str, str] = {"WWW-Authenticate": _REALM + (f', error="{error}"' if error else "")}
    return ApiError(401, CODES[401], message, headers=challenge)


def _forbidden(message: str) -> ApiError:
    return ApiError(403, CODES[403], message)
