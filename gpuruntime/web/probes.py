"""Liveness and readiness, as kubelets ask for them."""

from aiohttp import web

__all__ = ["livez", "readyz"]


async def livez(_request: web.Request) -> web.Response:
    """Whether the process answers at all."""
    return web.Response(text="ok\n")


async def readyz(_request: web.Request) -> web.Response:
    """Whether it can serve requests."""
    return web.Response(text="ok\n")
