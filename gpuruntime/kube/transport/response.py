"""The response to a request that succeeded."""

from functools import cached_property
from typing import Any

import orjson
from attrs import field, frozen
from multidict import CIMultiDictProxy

from gpuruntime.kube.errors import UnexpectedResponseError, excerpt

__all__ = ["Response"]


@frozen
class Response:
    """Status 2xx, the headers and the whole body. `request` names the request in messages."""

    status: int
    headers: CIMultiDictProxy[str] = field(repr=False)
    body: bytes = field(repr=False)
    request: str = ""

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object, parsed once: every call returns the same dict.

        Raises:
            UnexpectedResponseError: the body is something else, such as the page of a proxy; a write may have been
                executed.
        """
        return self._json_object

    @cached_property
    def _json_object(self) -> dict[str, Any]:
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            found = f"{self.headers.get('Content-Type', 'no content type')}: {excerpt(self.body)}"
            raise self._unexpected(found) from error
        if not isinstance(value, dict):
            raise self._unexpected(f"JSON of another type: {excerpt(self.body)}")
        return value

    def _unexpected(self, found: str) -> UnexpectedResponseError:
        return UnexpectedResponseError(f"{self.request}: expected a JSON object, found {found}", outcome_unknown=True)
