"""The identities of kinds and of objects."""

import re
from typing import Final, NamedTuple, Self
from urllib.parse import quote

from attrs import frozen

__all__ = ["ObjectKey", "ResourceKind"]

# Needs no quoting; this check is faster than quoting.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~-]+")


@frozen
class ResourceKind:
    """A kind of objects in one API version; hashable, for use as a key.

    `group` is empty for the core group. `plural` is the resource name in URLs ("deployments").
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """The value of `apiVersion` in an object: "apps/v1", or "v1" in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of an object, or of a subresource.

        An empty namespace counts as none, so `kind.path(key.namespace, key.name)` works for both scopes. For a
        namespaced kind, the path without namespace and name is that of all namespaces.

        Raises:
            ValueError: a namespace for a cluster-scoped kind, a name without a required namespace, an empty name (it
                would address the whole collection), a subresource without a name, or a part that is not a valid path
                segment.
        """
        if namespace and not self.namespaced:
            raise ValueError(f"{self} is cluster-scoped: expected no namespace, got {namespace!r}")
        if name is not None and self.namespaced and not namespace:
            raise ValueError(f"{self} is namespaced: expected a namespace for {name!r}, got none")
        if subresource is not None and name is None:
            raise ValueError(f"subresource {subresource!r} of {self}: expected the name of an object, got none")

        segments = ["apis", self.group] if self.group else ["api"]
        segments.append(self.version)
        if namespace:
            segments += ["namespaces", namespace]
        segments.append(self.plural)
        if name is not None:
            segments.append(name)
        if subresource is not None:
            segments.append(subresource)
        return "".join("/" + _segment(segment, self) for segment in segments)

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


class ObjectKey(NamedTuple):
    """The namespace and name of an object; the namespace of a cluster-scoped object is empty.

    A tuple, because hashing and comparing keys is the most frequent operation of queues and caches.
    """

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`: "namespace/name" or "name".

        Raises:
            ValueError: an empty part, or more than one slash.
        """
        namespace, slash, name = text.rpartition("/")
        if not name or "/" in namespace or (slash and not namespace):
            raise ValueError(f"expected 'namespace/name' or 'name', got {text!r}")
        return cls(namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def _segment(text: str, kind: ResourceKind) -> str:
    # The server decodes the path before routing, so even an encoded slash or dot-dot would leave the segment; no valid
    # name contains one.
    if _PLAIN.fullmatch(text) and text not in {".", ".."}:
        return text
    if not text or text in {".", ".."} or "/" in text or "%" in text:
        raise ValueError(f"expected a part of the path of {kind} without '/' and '%', got {text!r}")
    return quote(text, safe="")
