"""Which requests are meant: by method, path, kind of read, and query."""

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
    """Matches a request that meets every condition given; a condition left out is met by all.

    `path` is a regular expression for the whole path, without the query; a path as it is written matches itself.
    `watch` tells watches (True) from all other requests (False). `query` lists parameters that must have these values.
    `resource` is what `resource_of` makes of the path.
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
        """How many conditions it makes; of two patterns that match, the one with more is the more special."""
        return sum(part is not None for part in (self.method, self.path, self.watch, self.resource)) + len(self.query)


def is_watch(query: Mapping[str, str]) -> bool:
    """Whether these parameters ask for a watch, read as the API server reads them: `?watch` alone does."""
    return "watch" in query and query["watch"].lower() not in {"false", "0"}


def resource_of(path: str) -> str:
    """What a path is about, e.g. `pods` or `pods/status`; the path itself where it names no resource."""
    found = _RESOURCE_PATH.fullmatch(path)
    if found is None:
        return path
    resource, subresource = found["resource"], found["subresource"]
    return resource if subresource is None else f"{resource}/{subresource}"
