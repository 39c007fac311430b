"""Breaking changes between two OpenAPI documents.

A change is breaking if the newer API accepts less (a field is removed or required, a value is no longer allowed) or
returns less (a route, a response or a field is removed, or is no longer always present).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["breaking_changes"]

_SCOPES: Final = ("read", "write", "operator")
_AT_LEAST: Final = ("minimum", "minLength", "minItems", "minProperties")
_AT_MOST: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
_EXACT: Final = ("pattern", "format", "uniqueItems")


def breaking_changes(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, ...]:
    """Every breaking change between two documents, one sentence each, in the order of the older one.

    Caveats: a changed pattern is always breaking, even if it allows more. A new enum value in a response is not.
    """
    return tuple(_Comparison(old, new).all())


class _Comparison:
    def __init__(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._old = old
        self._new = new

    def all(self) -> Iterator[str]:
        for path, methods in self._old["paths"].items():
            for method, operation in methods.items():
                where = f"{method.upper()} {path}"
                after = self._new["paths"].get(path, {}).get(method)
                if after is None:
                    yield f"{where} is gone"
                else:
                    yield from self._operation(where, operation, after)

    def _operation(self, where: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
        before, after = (_SCOPES.index(one["x-scope"]) for one in (old, new))
        if after > before:
            yield f"{where} needs scope {new['x-scope']}, was {old['x-scope']}"
        yield from self._parameters(where, _by_name(old), _by_name(new))
        yield from self._bodies(f"{where} body", old.get("requestBody"), new.get("requestBody"))
        for status, answer in old["responses"].items():
            if int(status) >= 400:
                continue
            if status not in new["responses"]:
                yield f"{where} no longer answers {status}"
            else:
                yield from self._answers(f"{where} {status}", answer, new["responses"][status])

    def _parameters(self, where: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
        for name, parameter in old.items():
            if name not in new:
                yield f"{where} no longer takes {name}"
            else:
                yield from self._taken(f"{where} {name}", parameter["schema"], new[name]["schema"])
        for name, parameter in new.items():
            if parameter["required"] and not old.get(name, {"required": False})["required"]:
                yield f"{where} requires {name}"

    def _bodies(self, where: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[str]:
        if old is None:
            if new is not None and new["required"]:
                yield f"{where} is required"
            return
        if new is None:
            yield f"{where} is no longer taken"
            return
        if new["required"] and not old["required"]:
            yield f"{where} is required"
        yield from self._contents(where, old, new, taken=True)

    def _answers(self, where: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
        for name in old.get("headers", {}):
            if name not in new.get("headers", {}):
                yield f"{where} no longer has the header {name}"
        yield from self._contents(where, old, new, taken=False)

    def _contents(self, where: str, old: dict[str, Any], new: dict[str, Any], *, taken: bool) -> Iterator[str]:
        for media, content in old.get("content", {}).items():
            after = new.get("content", {}).get(media)
            if after is None:
                yield f"{where} is no longer {media}"
            else:
                compare = self._taken if taken else self._given
                yield from compare(where, content.get("schema", {}), after.get("schema", {}))

    def _taken(self, where: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
        """Request schemas: the new one must allow everything that the old one allowed."""
        old, new = _resolved(before, self._old), _resolved(after, self._new)
        lost = _kinds(old) - _kinds(new)
        if lost:
            yield f"{where} can no longer be {' or '.join(sorted(lost))}"
            return
        yield from _narrowed(where, old, new)
        properties, known = old.get("properties", {}), new.get("properties", {})
        for name, schema in properties.items():
            if name in known:
                yield from self._taken(f"{where}.{name}", schema, known[name])
            elif new.get("additionalProperties") is False:
                yield f"{where}.{name} is no longer taken"
        for name in new.get("required", ()):
            if name not in old.get("required", ()):
                yield f"{where}.{name} is required"
        yield from self._inner(where, old, new, taken=True)

    def _given(self, where: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
        """Response schemas: the old one must allow everything that the new one allows."""
        old, new = _resolved(before, self._old), _resolved(after, self._new)
        added = _kinds(new) - _kinds(old)
        if added:
            yield f"{where} can be {' or '.join(sorted(added))} now"
            return
        known = new.get("properties", {})
        for name, schema in old.get("properties", {}).items():
            if name not in known:
                yield f"{where}.{name} is gone"
            else:
                yield from self._given(f"{where}.{name}", schema, known[name])
        for name in old.get("required", ()):
            if name in known and name not in new.get("required", ()):
                yield f"{where}.{name} is not always there any more"
        yield from self._inner(where, old, new, taken=False)

    def _inner(self, where: str, old: dict[str, Any], new: dict[str, Any], *, taken: bool) -> Iterator[str]:
        for key, step in (("items", "[]"), ("additionalProperties", "{}")):
            before, after = old.get(key), new.get(key)
            if isinstance(before, dict) and isinstance(after, dict):
                compare = self._taken if taken else self._given
                yield from compare(where + step, before, after)


def _narrowed(where: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for key in (*_AT_LEAST, *_AT_MOST):
        before, after = old.get(key), new.get(key)
        if after is not None and (before is None or (after > before if key in _AT_LEAST else after < before)):
            yield f"{where} has {key} {after}, was {'none' if before is None else before}"
    for key in _EXACT:
        if key in new and new[key] != old.get(key):
            yield f"{where} has {key} {new[key]}, was {old.get(key, 'none')}"
    if "enum" in new:
        lost = [choice for choice in old.get("enum", ["anything else"]) if choice not in new["enum"]]
        yield from (f"{where} can no longer be {choice!r}" for choice in lost)


def _by_name(operation: dict[str, Any]) -> dict[str, Any]:
    return {f"{parameter['in']} {parameter['name']}": parameter for parameter in operation["parameters"]}


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """The schema behind a reference, or behind a reference that may be null."""
    choices = schema.get("anyOf", ())
    reference = next((choice["$ref"] for choice in choices if "$ref" in choice), schema.get("$ref"))
    if reference is None:
        return schema
    found: dict[str, Any] = document["components"]["schemas"][reference.rpartition("/")[2]]
    others = [choice for choice in choices if "$ref" not in choice]
    return {**found, "type": sorted(_kinds(found).union(*map(_kinds, others)))} if others else found


def _kinds(schema: dict[str, Any]) -> set[str]:
    """The types that a value may have. An integer is also a number; a schema without a type allows all types."""
    if "anyOf" in schema:
        return set().union(*(_kinds(choice) for choice in schema["anyOf"]))
    kind = schema.get("type", ["string", "number", "integer", "boolean", "array", "object", "null"])
    found = {kind} if isinstance(kind, str) else set(kind)
    return found | {"integer"} if "number" in found else found
