"""A minimal administrator's client for the setup and the assertions of tests.

It is blocking, speaks JSON over TLS, and shares no code with the library, so that a bug of the library's client cannot
cancel itself out in a test.
"""

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

__all__ = ["AdminClient", "RefusedError"]

_CONTENT_TYPES = {"PATCH": "application/merge-patch+json"}


class RefusedError(Exception):
    """The API server answered with an error status; `status` is the HTTP status code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


@frozen
class AdminClient:
    """Sends each request on a new connection and returns the decoded response."""

    server: str
    tls: ssl.SSLContext

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def create(self, path: str, body: Any) -> Any:
        return self.request("POST", path, body)

    def merge(self, path: str, body: Any) -> Any:
        """Apply a merge patch."""
        return self.request("PATCH", path, body)

    def delete(self, path: str) -> None:
        """Delete an object; one that does not exist counts as deleted."""
        try:
            self.request("DELETE", path)
        except RefusedError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and decode the response. Raises RefusedError for an error status, OSError for no response."""
        address = urlsplit(self.server)
        connection = http.client.HTTPSConnection(address.hostname or "", address.port, timeout=30, context=self.tls)
        try:
            headers = {
                "Accept": "application/json",
                "Content-Type": _CONTENT_TYPES.get(method, "application/json"),
            }
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {path}: {type(error).__name__}") from error
        finally:
            connection.close()
        if response.status >= 400:
            raise RefusedError(response.status, _message(content))
        return (
            json.loads(content)
            if response.getheader("Content-Type", "").startswith("application/json")
            else content.decode()
        )


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:256].decode(errors="replace")
