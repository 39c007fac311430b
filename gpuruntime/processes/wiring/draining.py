"""What a server does while its process stops."""

from aiohttp import web
from attrs import frozen

from gpuruntime.control import Manager

__all__ = ["CloseConnections"]


@frozen
class CloseConnections:
    """Closes connections after their next response while the process stops: callers connect to another replica."""

    manager: Manager

    async def on_response_prepare(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Set the header too: aiohttp has chosen it before it sends this signal."""
        if self.manager.is_stopping:
            response.force_close()
            response.headers["Connection"] = "close"
