"""A client of the API over plain HTTP: one connection a request, and one retry where a request failed."""

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
    """A request failed, and failed again."""


@frozen
class Reply:
    """What the API said."""

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
    """Sends requests to whoever listens at `url`. Each write has an operationID, so that it can be sent again."""

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
        """What the API says to a request under /api/v1; in the names of headers, _ stands for -.

        Raises:
            FailedError: there was no answer, or one that says to come later, twice.
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
        """What the API says to a request that is sent once.

        Raises:
            OSError, HTTPException: there was no answer.
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
