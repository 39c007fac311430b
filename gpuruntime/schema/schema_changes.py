"""Breaking changes between two structural schemas: what the new one refuses, drops or interprets differently."""

from collections.abc import Iterator
from typing import Any, Final, Literal

from attrs import frozen

from gpuruntime.schema.markers import INT_OR_STRING, PRESERVE_UNKNOWN, RULES

__all__ = ["Breakage", "schema_breakages"]

_WIDER: Final = {
    *(("integer", "number"), ("integer", "int-or-string"), ("string", "int-or-string")),
    *(("int32", "int64"), ("int32", "double"), ("int64", "double"), ("float", "double")),
}
_OPAQUE: Final = ("allOf", "anyOf", "oneOf", "not", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems")
_AT_LEAST: Final = ("minimum", "minLength", "minItems", "minProperties")
_AT_MOST: Final = ("maximum", "maxLength", "maxItems", "maxProperties")


@frozen
class Breakage:
    """One breaking change: its path in the definition, and the problem.

    "breaking" means that data that the old definition allowed is lost or refused, or that clients fail; "warning" means
    that this depends on the stored objects.
    """

    severity: Literal["breaking", "warning"]
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.path} {self.problem}"


def schema_breakages(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Breakage]:
    """The breaking changes from one schema to the other, outermost first."""
    before, after = _kind(old), _kind(new)
    if before != after:
        if (before, after) in _WIDER or after == "untyped":
            yield Breakage("warning", path, f"changes from {before} to {after}: clients may get values of a new type")
        else:
            yield Breakage("breaking", path, f"changes from {before} to {after}: stored values have the wrong type")
            return
    yield from _values(old, new, path)
    yield from _defaults(old, new, path)
    yield from _ownership(old, new, path)
    yield from _unknown_fields(old, new, path)
    yield from _fields(old, new, path)
    for keyword, step in (("items", "[]"), ("additionalProperties", "{}")):
        if keyword in old and keyword in new:
            yield from schema_breakages(old[keyword], new[keyword], path + step)
    known = [rule["rule"] for rule in old.get(RULES, ())]
    for rule in new.get(RULES, ()):
        if rule["rule"] not in known:
            yield Breakage("warning", path, f"has a new rule, which stored objects may break: {rule['rule']}")


def _values(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Breakage]:
    # On a string with a format these keywords only refuse lists.
    skipped = {"minItems", "maxItems"} if new.get("type") == "string" else set()
    for keyword in (*_AT_LEAST, *_AT_MOST):
        before, after = old.get(keyword), new.get(keyword)
        if after is None or keyword in skipped:
            continue
        if before is None or (after > before if keyword in _AT_LEAST else after < before):
            yield _narrower(path, keyword, before, after)
    for keyword in ("pattern", "format"):
        before, after = old.get(keyword), new.get(keyword)
        if after not in {None, before} and (before, after) not in _WIDER:
            yield _narrower(path, keyword, before, after)
    for keyword in _OPAQUE:
        if old.get(keyword) != new.get(keyword) and not new.get(INT_OR_STRING):
            yield Breakage("warning", path, f"has a changed {keyword}, which is not analysed: check what it refuses")
    if old.get("nullable") and not new.get("nullable"):
        yield Breakage("breaking", path, "can no longer be null: a stored null is dropped")
    yield from _choices(old.get("enum"), new.get("enum"), path)


def _choices(old: list[Any] | None, new: list[Any] | None, path: str) -> Iterator[Breakage]:
    if new is not None and old is None:
        yield _narrower(path, "enum", None, new)
    elif new is not None and old is not None:
        for choice in old:
            if choice not in new:
                yield Breakage("breaking", path, f"no longer allows {choice!r}: stored objects may have it")
    if old is not None and any(choice not in old for choice in new or ["anything else"]):
        yield Breakage("warning", path, "allows more choices: clients may get values that they do not know")


def _narrower(path: str, keyword: str, before: Any, after: Any) -> Breakage:
    was = "none" if before is None else repr(before)
    return Breakage("breaking", path, f"has {keyword} {after!r}, was {was}: stored values may be refused")


def _defaults(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Breakage]:
    before, after = old.get("default"), new.get("default")
    if before != after:
        was, now = ("none" if default is None else repr(default) for default in (before, after))
        yield Breakage("warning", path, f"has default {now}, was {was}: the meaning of objects that omit it changes")


def _ownership(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Breakage]:
    for keyword, usual in (("x-kubernetes-list-type", "atomic"), ("x-kubernetes-map-type", "granular")):
        before, after = old.get(keyword, usual), new.get(keyword, usual)
        if before != after:
            yield Breakage(
                "breaking", path, f"has {keyword} {after}, was {before}: owners of parts change, duplicates are refused"
            )
    keys = "x-kubernetes-list-map-keys"
    if keys in old and keys in new and set(old[keys]) != set(new[keys]):
        yield Breakage("breaking", path, f"has the keys {new[keys]}, was {old[keys]}: stored items may be duplicates")


def _unknown_fields(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Breakage]:
    keeps = PRESERVE_UNKNOWN in new or "additionalProperties" in new
    if PRESERVE_UNKNOWN in old and not keeps:
        yield Breakage("breaking", path, "no longer keeps unknown fields: stored ones are dropped")
    if "additionalProperties" in old and not keeps:
        yield Breakage("breaking", path, "is no longer a map: stored keys without a field are dropped")
    if "x-kubernetes-embedded-resource" in new and "x-kubernetes-embedded-resource" not in old:
        yield Breakage(
            "breaking", path, "must be a whole object now: stored values without apiVersion and kind are refused"
        )


def _fields(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Breakage]:
    before, after = old.get("properties", {}), new.get("properties", {})
    keeps = PRESERVE_UNKNOWN in new or "additionalProperties" in new
    added = {name: schema for name, schema in after.items() if name not in before}
    for name, schema in before.items():
        if name in after:
            yield from schema_breakages(schema, after[name], f"{path}.{name}")
            continue
        twins = [other for other, twin in added.items() if _bare(twin) == _bare(schema)]
        hint = f" (renamed to {twins[0]}? values are not migrated)" if len(twins) == 1 else ""
        loss = "stored values are kept, but not validated" if keeps else "stored values are dropped"
        yield Breakage("warning" if keeps else "breaking", f"{path}.{name}", f"was removed: {loss}{hint}")
    for name in new.get("required", ()):
        if name not in old.get("required", ()) and "default" not in after.get(name, {}):
            yield Breakage(
                "breaking", f"{path}.{name}", "is required now and has no default: stored objects may lack it"
            )
    for name in added:
        if PRESERVE_UNKNOWN in old or "additionalProperties" in old:
            yield Breakage("warning", f"{path}.{name}", "has a schema now, which stored values may not fit")


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in {"description", RULES}}


def _kind(schema: dict[str, Any]) -> str:
    return "int-or-string" if schema.get(INT_OR_STRING) else str(schema.get("type", "untyped"))
