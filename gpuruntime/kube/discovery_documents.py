"""Parsers of discovery documents, aggregated and legacy.

Kinds are in the server's order of preference. Incomplete entries are skipped: the document of a broken extension must
not hide the kinds of all others.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from gpuruntime.meta.identity import ResourceKind

__all__ = ["aggregated_kinds", "group_versions", "resource_kinds"]


def aggregated_kinds(document: dict[str, Any]) -> Iterator[ResourceKind]:
    """The kinds of an APIGroupDiscoveryList."""
    for group in _objects(document.get("items")):
        metadata = group.get("metadata")
        # The core group has no name.
        group_name = _text(metadata, "name") if isinstance(metadata, dict) else ""
        for version in _objects(group.get("versions")):
            for resource in _objects(version.get("resources")):
                # responseKind has an empty group and version where they are those of the document.
                kind = resource.get("responseKind")
                yield from _kind(
                    group_name,
                    _text(version, "version"),
                    _text(kind, "kind") if isinstance(kind, dict) else "",
                    _text(resource, "resource"),
                    namespaced=resource.get("scope") == "Namespaced",
                )


def group_versions(group_list: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The groups and versions of an APIGroupList, the preferred version of each group first."""
    for group in _objects(group_list.get("groups")):
        name, preferred = _text(group, "name"), group.get("preferredVersion")
        first = _text(preferred, "version") if isinstance(preferred, dict) else ""
        versions = [_text(version, "version") for version in _objects(group.get("versions"))]
        for version in sorted(filter(None, versions), key=lambda version: version != first):
            yield name, version


def resource_kinds(group: str, version: str, resource_list: dict[str, Any]) -> Iterator[ResourceKind]:
    """The kinds of an APIResourceList; subresources are not kinds of their own."""
    for resource in _objects(resource_list.get("resources")):
        plural = _text(resource, "name")
        if "/" not in plural:
            yield from _kind(
                group, version, _text(resource, "kind"), plural, namespaced=resource.get("namespaced") is True
            )


def _kind(group: str, version: str, kind: str, plural: str, *, namespaced: bool) -> Iterable[ResourceKind]:
    if version and kind and plural:
        yield ResourceKind(group, version, kind, plural, namespaced)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _text(value: dict[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""
