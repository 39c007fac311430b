"""Writes where a namespace of the product is gone: the caller hears which, and what is to be done."""

from collections.abc import Sequence
from contextlib import suppress
from functools import wraps
from typing import Final

from aiohttp import web
from attrs import evolve

from gpuruntime.kube import ForbiddenError, NotFoundError, StatusError, UnavailableError
from gpuruntime.service.errors import InsufficientCapacityError, RefusedError
from gpuruntime.service.objects.namespace_checks import NamespaceChecks
from gpuruntime.web.server.route import Call, Handler, Reply, Route, Scope

__all__ = ["where_namespaces_are"]

# Of many refusals for want of stock, few look again.
_RECENT_SECONDS: Final = 1.0


def where_namespaces_are(routes: Sequence[Route], checks: NamespaceChecks) -> tuple[Route, ...]:
    """The same routes; writes answer `namespace_not_found` while a namespace is missing or being deleted."""
    return tuple(route if route.method == "GET" else evolve(route, handler=_checked(route, checks)) for route in routes)


def _checked(route: Route, checks: NamespaceChecks) -> Handler:
    # Stock is made after the answer, so that its maker would hear of no error. Claims are too many to look each time.
    is_rare = route.scope is Scope.OPERATOR

    @wraps(route.handler)
    async def serve(call: Call) -> Reply | web.StreamResponse:
        await checks.ensure(not_before=checks.now() if is_rare else None)
        try:
            return await route.handler(call)
        except Exception as error:
            if _may_be_about_a_namespace(error):
                with suppress(UnavailableError):
                    await checks.ensure(not_before=checks.now() - _RECENT_SECONDS)
            raise

    return serve


def _may_be_about_a_namespace(error: Exception) -> bool:
    """Whether this is what comes of a namespace that is gone: no rights in it, nothing in it."""
    if isinstance(error, UnavailableError):
        return isinstance(error.__cause__, StatusError)
    return isinstance(error, ForbiddenError | NotFoundError | InsufficientCapacityError | RefusedError)
