"""Breaking changes between two definitions of a kind, for stored objects and for clients."""

from collections.abc import Iterator
from typing import Any

from gpuruntime.schema.schema_changes import Breakage, schema_breakages

__all__ = ["Breakage", "breaking_changes"]


def breaking_changes(old: dict[str, Any], new: dict[str, Any]) -> tuple[Breakage, ...]:
    """The breaking changes between two definitions of one kind, in the order of the definition.

    Both are plain JSON, from `definition`, a file or a server. The schema of a version is compared with the same
    version; that of a new storage version also with the schema of the old storage version.

    Guarantees:
        If nothing is reported, the new definition accepts every object that the old one accepted, keeps it whole and
        gives it the same meaning. "breaking" changes refuse or lose data that was allowed. A "warning" depends on the
        stored objects, or affects only clients that do not expect new values.

    Caveats:
        Patterns and CEL rules are not analysed: a changed pattern is breaking and a new CEL rule is a warning, even if
        they allow more than before.
    """
    return (*_names(old["spec"], new["spec"]), *_versions(old, new["spec"]))


def _names(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Breakage]:
    fixed = [
        ("spec.group", old["group"], new["group"]),
        ("spec.scope", old["scope"], new["scope"]),
        *((f"spec.names.{key}", old["names"][key], new["names"][key]) for key in ("kind", "plural")),
    ]
    for path, before, after in fixed:
        if before != after:
            yield Breakage(
                "breaking", path, f"changes from {before} to {after}: it is another kind, objects are not migrated"
            )
    for key in ("shortNames", "categories"):
        for name in old["names"].get(key, ()):
            if name not in new["names"].get(key, ()):
                yield Breakage("warning", f"spec.names.{key}", f"{name} was removed: commands that use it fail")


def _versions(old_definition: dict[str, Any], new: dict[str, Any]) -> Iterator[Breakage]:
    old = old_definition["spec"]
    stored_names = {
        *(version["name"] for version in old["versions"] if version["storage"]),
        *old_definition.get("status", {}).get("storedVersions", ()),
    }
    by_name = {version["name"]: version for version in new["versions"]}
    for before in old["versions"]:
        name = before["name"]
        path, after = f"spec.versions[{name}]", by_name.get(name)
        if after is None:
            if name in stored_names:
                yield Breakage(
                    "breaking",
                    path,
                    "was removed, but objects may be stored in it: migrate them to another version first",
                )
            elif before["served"]:
                yield Breakage("breaking", path, "was removed: clients that use it fail; stop serving it first")
            continue
        if before["served"] and not after["served"]:
            yield Breakage("breaking", f"{path}.served", "is no longer served: clients that use it fail")
        yield from _subresources(before, after, path)
        yield from schema_breakages(_schema(before), _schema(after), f"{path}.schema")
    yield from _stored(old, new)


def _stored(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Breakage]:
    """If the storage version changes, stored objects are read with the schema of the new one."""
    (before,) = (version for version in old["versions"] if version["storage"])
    (after,) = (version for version in new["versions"] if version["storage"])
    if before["name"] != after["name"] and new.get("conversion", {}).get("strategy", "None") == "None":
        path = f"spec.versions[{after['name']}].schema"
        yield from schema_breakages(_schema(before), _schema(after), path)


def _subresources(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Breakage]:
    old, new = before.get("subresources", {}), after.get("subresources", {})
    if "status" in old and "status" not in new:
        yield Breakage("breaking", f"{path}.subresources.status", "was removed: clients that write the status fail")
    if "status" in new and "status" not in old:
        yield Breakage(
            "breaking",
            f"{path}.subresources.status",
            "is new: a status written with the whole object is ignored",
        )
    if "scale" in old and old["scale"] != new.get("scale"):
        problem = (
            "changes: clients that scale write other fields" if "scale" in new else "was removed: kubectl scale fails"
        )
        yield Breakage("breaking", f"{path}.subresources.scale", problem)


def _schema(version: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema
