"""A client of the API over plain HTTP: one connection per request, and one retry of a failed request."""

import http.client
import json
import uuid
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import field, frozen

__all__ = ["Caller", "FailedError", "Reply"]

_PATIENCE_SECONDS: Final = 100.0
_FAILED: Final = frozenset({500, 502, 503, 504})


class FailedError(AssertionError):
    """A request failed twice."""


@frozen
class Reply:
    """A response of the API."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: Any

    @property
    def data(self) -> Any:
        assert isinstance(self.body, dict), self
        assert "data" in self.body, self
        return self.body["data"]

    @property
    def error(self) -> Any:
        assert isinstance(self.body, dict), self
        assert "error" in self.body, self
        return self.body["error"]


@frozen
class Caller:
    """Sends requests to `url`. Each write has an operationID, so that a retry is safe."""

    url: str
    token: str = field(repr=False)

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, None, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        return self.send("POST", path, body, **headers)

    def put(self, path: str, body: Any, **headers: str) -> Reply:
        return self.send("PUT", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Reply:
        return self.send("DELETE", path, None, **headers)

    def send(self, method: str, path: str, body: Any, **headers: str) -> Reply:
        """Send a request under /api/v1, with one retry; in the names of headers, _ stands for -.

        Raises:
            FailedError: there was no response, or one to retry later, twice.
        """
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        if method != "GET" and not (isinstance(body, dict) and "operationID" in body):
            named.setdefault("Idempotency-Key", f"story-{uuid.uuid4().hex}")
        words: list[str] = []
        for _ in range(2):
            try:
                reply = self.once(method, path, body, named)
            except (OSError, http.client.HTTPException) as error:
                words.append(f"{type(error).__name__}: {error}")
            else:
                if reply.status not in _FAILED:
                    return reply
                words.append(str(reply))
        raise FailedError(f"{method} {path} failed twice: {words}")

    def once(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Reply:
        """Send a request once.

        Raises:
            OSError, HTTPException: there was no response.
        """
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_PATIENCE_SECONDS)
        try:
            content = None if body is None else json.dumps(body)
            sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **headers}
            connection.request(method, f"/api/v1{path}", content, {**sent, "Connection": "close"})
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        return Reply(response.status, dict(response.headers), json.loads(text) if text else None)
