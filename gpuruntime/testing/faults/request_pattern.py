"""Patterns that match requests by method, path, resource, query, and whether they are watches."""

import re
from collections.abc import Mapping

from attrs import field, frozen

__all__ = ["RequestPattern", "is_watch", "resource_of"]

_RESOURCE_PATH = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+/(?:namespaces/[^/]+/(?!(?:status|finalize)$))?"
    r"(?P<resource>[^/]+)(?:/[^/]+(?:/(?P<subresource>[^/]+))?)?.*"
)


def _pairs(query: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(query.items()))


@frozen
class RequestPattern:
    """Matches a request that meets every given condition.

    `path` is a regular expression for the whole path without the query; a literal path matches itself. `watch` selects
    watches (True) or all other requests (False). `query` lists parameters that must have these values. `resource` is
    compared with `resource_of` the path.
    """

    method: str | None = None
    path: str | None = field(default=None)
    watch: bool | None = None
    query: tuple[tuple[str, str], ...] = field(factory=dict, converter=_pairs)
    resource: str | None = None

    @path.validator
    def _compiles(self, _: object, value: str | None) -> None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"path {value!r} of a request pattern is not a regular expression: {error}") from error

    def matches(self, method: str, path: str, query: Mapping[str, str]) -> bool:
        return (
            self.method in (None, method)
            and (self.path is None or re.fullmatch(self.path, path) is not None)
            and self.watch in (None, is_watch(query))
            and self.resource in (None, resource_of(path))
            and all(query.get(name) == value for name, value in self.query)
        )

    @property
    def conditions(self) -> int:
        """The number of conditions: of two matching patterns, the one with more is the more specific."""
        return sum(part is not None for part in (self.method, self.path, self.watch, self.resource)) + len(self.query)


def is_watch(query: Mapping[str, str]) -> bool:
    """Whether the query asks for a watch, as the API server parses it: a bare `?watch` does."""
    return "watch" in query and query["watch"].lower() not in {"false", "0"}


def resource_of(path: str) -> str:
    """The resource of a path, such as `pods` or `pods/status`; the path itself if it has none."""
    found = _RESOURCE_PATH.fullmatch(path)
    if found is None:
        return path
    resource, subresource = found["resource"], found["subresource"]
    return resource if subresource is None else f"{resource}/{subresource}"
