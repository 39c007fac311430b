"""Schemas of OpenAPI 3.1 from wire types: what the definitions of kinds say, in the words of JSON Schema.

Every type has a name of its own among the components, types inside of others too: generators name their classes after
it. What a type is in requests and in answers differs, so inside of requests it has `Input` behind its name. A map is
named after the property that it is.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from attrs import evolve, frozen

from gpuruntime.control.definitions.schema import TYPE, schema_of
from gpuruntime.meta import EMPTY, Struct

__all__ = ["Components", "query_schema"]

_KUBERNETES: Final = "x-kubernetes-"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_NULL: Final = {"type": "null"}


class Components:
    """The schemas of a description, each under its name."""

    def __init__(self) -> None:
        self._schemas: dict[str, dict[str, Any]] = {}
        self._types: dict[str, type[Struct]] = {}

    def request(self, cls: type[Struct], more: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
        """Where it is found what a body may be. Unknown fields are refused, and null is as good as absent.

        It may have `more` properties than those of its type.
        """
        schema = _Plain(self, is_request=True).of(schema_of(cls, typed=True))
        return self.add(cls.__name__, {**schema, "properties": {**more, **schema["properties"]}})

    def response(self, cls: type[Struct]) -> dict[str, Any]:
        """Where it is found what an answer, or a part of one, is. Further fields may come with any release."""
        return self.inner(cls.__name__, cls, _Plain(self, is_request=False))

    def add(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Where a schema is found.

        Raises:
            ValueError: there is another one of this name.
        """
        if self._schemas.setdefault(name, schema) != schema:
            raise ValueError(f"type {name}: expected one meaning of the name in requests and answers, got two")
        return {"$ref": f"#/components/schemas/{name}"}

    def all(self) -> dict[str, Any]:
        return dict(sorted(self._schemas.items()))

    def inner(self, name: str, cls: type[Struct], plain: "_Plain") -> dict[str, Any]:
        """Where a type is found that has a schema of this name."""
        if self._types.get(name) is not cls:
            self._types[name] = cls
            self.add(name, plain.of(schema_of(cls, typed=True)))
        return {"$ref": f"#/components/schemas/{name}"}


def query_schema(cls: type[Struct]) -> Mapping[str, dict[str, Any]]:
    """What the parameters of a query may be, by their names."""
    properties: dict[str, dict[str, Any]] = _Plain(Components(), is_request=False).of(schema_of(cls))["properties"]
    return properties


@frozen
class _Plain:
    """Makes schemas without what only Kubernetes knows; types and maps inside of them go to the components."""

    components: Components
    is_request: bool
    is_part: bool = False

    def of(self, schema: dict[str, Any]) -> dict[str, Any]:
        if TYPE in schema:
            # Without a default: no generator knows one that is an object. Absent means the same.
            cls: type[Struct] = schema[TYPE]
            described = {"description": schema["description"]} if "description" in schema else {}
            part = evolve(self, is_part=True)
            return {**described, **self.components.inner(cls.__name__ + self._suffix, cls, part)}
        plain = {key: value for key, value in schema.items() if not key.startswith(_KUBERNETES) and key != "nullable"}
        if schema.get("x-kubernetes-list-type") == "set":
            plain["uniqueItems"] = True
        if schema.get("type") == "string":
            # On a string with a format they keep the API server from taking a list for it.
            plain.pop("minItems", None)
            plain.pop("maxItems", None)
        required = plain.get("required", ())
        if "properties" in plain:
            plain["properties"] = {
                key: self._property(key, inner, is_required=key in required)
                for key, inner in plain["properties"].items()
            }
        for key in ("items", "additionalProperties"):
            if key in plain:
                plain[key] = self.of(plain[key])
        is_closed = plain.get("type") == "object" and "additionalProperties" not in plain and _OPEN not in schema
        if self.is_request and is_closed:
            plain["additionalProperties"] = False
        return plain

    @property
    def _suffix(self) -> str:
        return "Input" if self.is_request else ""

    def _property(self, name: str, schema: dict[str, Any], *, is_required: bool) -> dict[str, Any]:
        plain = self._named(name, self.of(schema))
        if not self.is_request:
            return plain
        if self.is_part and "default" in plain:
            # A client would send it with each update, and so change what its user left out.
            usual = orjson.dumps(plain.pop("default")).decode()
            plain["description"] = f"{plain.get('description', '')} A new one has {usual} unless given.".lstrip()
        return plain if is_required else _nullable(plain)

    def _named(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema of a property; that of a map goes to the components, because generators make a class of it."""
        if schema.get("type") != "object" or not isinstance(schema.get("additionalProperties"), dict):
            return schema
        described = {key: text for key, text in schema.items() if key == "description"}
        rest = {key: value for key, value in schema.items() if key not in described}
        return {**described, **self.components.add(name[0].upper() + name[1:] + self._suffix, rest)}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    plain = dict(schema)
    if "$ref" in plain:
        plain["anyOf"] = [{"$ref": plain.pop("$ref")}, _NULL]
    elif "anyOf" in plain:
        plain["anyOf"] = [*plain["anyOf"], _NULL]
    if "type" in plain:
        plain["type"] = [plain["type"], "null"]
    if "enum" in plain:
        plain["enum"] = [*plain["enum"], None]
    return plain
