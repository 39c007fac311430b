"""Pages for those who run a process, guarded like the API where they are served on its port."""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from gpuruntime.web.auth.access_control import AccessControl, require
from gpuruntime.web.server.route import Scope

__all__ = ["guard_pages"]

_SCOPES: Final = {"metrics": Scope.READ, "debug": Scope.OPERATOR}


def guard_pages(app: web.Application, gate: AccessControl) -> None:
    """Let only those see /metrics who may read, and only operators see /debug. Probes stay open to all.

    Call it after `mount`, which answers refusals.
    """

    @web.middleware
    async def guarded(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        scope = _SCOPES.get(request.path.strip("/").partition("/")[0])
        if scope is not None:
            require(await gate.admit(request), scope)
        return await handler(request)

    app.middlewares.append(guarded)
