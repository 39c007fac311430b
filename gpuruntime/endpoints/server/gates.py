"""Gates in front of handlers: requests get 503 while the caches are not synced, or a namespace is missing."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Final

from aiohttp import web
from attrs import evolve

from gpuruntime.control import Cache
from gpuruntime.endpoints.server.errors import CODES, ApiError
from gpuruntime.endpoints.server.route import Call, Handler, Reply, Route, Scope
from gpuruntime.kube import ForbiddenError, NotFoundError, StatusError, UnavailableError
from gpuruntime.service.errors import InsufficientCapacityError, RefusedError
from gpuruntime.service.objects.namespace_checks import NamespaceChecks

__all__ = ["namespace_gate", "not_ready_reason", "readiness_gate"]

_RETRY_SECONDS: Final = 2
# Most failures under load are for want of stock: they share one check of the namespaces.
_RECENT_SECONDS: Final = 1.0


def readiness_gate(routes: Sequence[Route], reason: Callable[[], str]) -> tuple[Route, ...]:
    """The same routes; all but /health answer 503 while there is a `reason` why the process is not ready."""
    return tuple(
        route if route.path == "/health" else evolve(route, handler=_when_ready(route.handler, reason))
        for route in routes
    )


def not_ready_reason(cache: Cache) -> Callable[[], str]:
    """Why requests cannot be served from a cache yet; "" once all its informers have synced."""

    def reason() -> str:
        if all(informer.has_synced for informer in cache.informers):
            return ""
        errors = sorted({str(part.last_error) for one in cache.informers for part in one.health if part.last_error})
        return f"the caches have not synced yet: {errors[0] if errors else 'the first lists are running'}"

    return reason


def namespace_gate(routes: Sequence[Route], checks: NamespaceChecks) -> tuple[Route, ...]:
    """The same routes; writes answer `namespace_not_found` while a namespace is missing or being deleted."""
    return tuple(
        route if route.method == "GET" else evolve(route, handler=_with_namespaces(route, checks)) for route in routes
    )


def _when_ready(handler: Handler, reason: Callable[[], str]) -> Handler:
    @wraps(handler)
    async def serve(call: Call) -> Reply | web.StreamResponse:
        not_ready = reason()
        if not_ready:
            raise ApiError(503, CODES[503], not_ready, headers={"Retry-After": str(_RETRY_SECONDS)})
        return await handler(call)

    return serve


def _with_namespaces(route: Route, checks: NamespaceChecks) -> Handler:
    # Stock is created after the response: without a check up front the operator would never see the error. Operator
    # requests are rare, so each one is checked; claims are checked only after they failed.
    is_rare = route.scope is Scope.OPERATOR

    @wraps(route.handler)
    async def serve(call: Call) -> Reply | web.StreamResponse:
        await checks.ensure(not_before=checks.now() if is_rare else None)
        try:
            return await route.handler(call)
        except Exception as error:
            if _may_be_missing_namespace(error):
                with suppress(UnavailableError):
                    await checks.ensure(not_before=checks.now() - _RECENT_SECONDS)
            raise

    return serve


def _may_be_missing_namespace(error: Exception) -> bool:
    """Whether a missing namespace can cause this error: no permissions in it, no objects in it."""
    if isinstance(error, UnavailableError):
        return isinstance(error.__cause__, StatusError)
    return isinstance(error, ForbiddenError | NotFoundError | InsufficientCapacityError | RefusedError)
