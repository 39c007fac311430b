"""A plain administrator's client, for arranging the world around a test.

It is blocking, knows nothing but JSON over TLS, and shares no code with the library: a test that arranges with it and
acts with the library cannot agree with itself by mistake.
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
    """The API server answered with an error; `status` is its HTTP code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


@frozen
class AdminClient:
    """One request, one connection, one answer."""

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
        """Ask for the deletion; an object that is gone already is deleted."""
        try:
            self.request("DELETE", path)
        except RefusedError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send and decode. Raises RefusedError for an error answer and OSError where there is no answer."""
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
