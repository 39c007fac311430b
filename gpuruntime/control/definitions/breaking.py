"""What a new definition of a kind breaks: stored objects, and programs that were written for the old one."""

from collections.abc import Iterator
from typing import Any

from gpuruntime.control.definitions.schema_changes import Breakage, schema_breakages

__all__ = ["Breakage", "breaking_changes"]


def breaking_changes(old: dict[str, Any], new: dict[str, Any]) -> tuple[Breakage, ...]:
    """The differences between two definitions of one kind that can hurt, in the order of the definition.

    Both are plain JSON, from `definition`, from a file or from a server. The schema of a version is compared with the
    same version; that of a new stored version also with the schema that objects were stored under until now.

    Guarantees: when nothing is reported, every object that the old definition accepted is accepted, kept whole and has
    the same meaning under the new one. "breaking" refuses or loses what was allowed; a "warning" depends on the objects
    there are, or hurts only programs that take what they do not know for impossible.

    Caveats: patterns and CEL rules are not understood: a changed pattern is breaking and a new CEL rule a warning, even
    if they allow more than before.
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
                "breaking", path, f"changes from {before} to {after}: it is another kind, objects do not move to it"
            )
    for key in ("shortNames", "categories"):
        for name in old["names"].get(key, ()):
            if name not in new["names"].get(key, ()):
                yield Breakage("warning", f"spec.names.{key}", f"{name} is gone: commands that use it fail")


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
                    "is gone, but objects may be stored in it: write them all in another version first",
                )
            elif before["served"]:
                yield Breakage("breaking", path, "is gone: programs that use it fail; stop serving it first")
            continue
        if before["served"] and not after["served"]:
            yield Breakage("breaking", f"{path}.served", "is no longer served: programs that use it fail")
        yield from _subresources(before, after, path)
        yield from schema_breakages(_schema(before), _schema(after), f"{path}.schema")
    yield from _stored(old, new)


def _stored(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Breakage]:
    """Where the stored version changes, what was stored is read by the schema of another one."""
    (before,) = (version for version in old["versions"] if version["storage"])
    (after,) = (version for version in new["versions"] if version["storage"])
    if before["name"] != after["name"] and new.get("conversion", {}).get("strategy", "None") == "None":
        path = f"spec.versions[{after['name']}].schema"
        yield from schema_breakages(_schema(before), _schema(after), path)


def _subresources(before: dict[str, Any], after: dict[str, Any], path: str) -> Iterator[Breakage]:
    old, new = before.get("subresources", {}), after.get("subresources", {})
    if "status" in old and "status" not in new:
        yield Breakage("breaking", f"{path}.subresources.status", "is gone: programs that write the status fail")
    if "status" in new and "status" not in old:
        yield Breakage(
            "breaking", f"{path}.subresources.status", "is new: a status written with the rest of the object is ignored"
        )
    if "scale" in old and old["scale"] != new.get("scale"):
        problem = (
            "changes: programs that scale reach other fields" if "scale" in new else "is gone: kubectl scale fails"
        )
        yield Breakage("breaking", f"{path}.subresources.scale", problem)


def _schema(version: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema
