"""Component schemas for OpenAPI 3.1, from wire types.

Every type is a component with its own name, nested types too: client generators name their classes after it. A nested
type has different schemas in requests and in responses, so its name in requests ends with `Input`. A map is named after
its property.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from attrs import evolve, frozen

from gpuruntime.meta import EMPTY, Struct
from gpuruntime.schema import TYPE, schema_of

__all__ = ["Components", "query_schema"]

_KUBERNETES: Final = "x-kubernetes-"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_NULL: Final = {"type": "null"}


class Components:
    """The component schemas of a document, by name."""

    def __init__(self) -> None:
        self._schemas: dict[str, dict[str, Any]] = {}
        self._types: dict[str, type[Struct]] = {}

    def request(self, cls: type[Struct], more: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
        """Reference to the schema of a body, with `more` properties. Unknown fields are invalid, and null is absent."""
        schema = _Converter(self, is_request=True).convert(schema_of(cls, typed=True))
        return self.add(cls.__name__, {**schema, "properties": {**more, **schema["properties"]}})

    def response(self, cls: type[Struct]) -> dict[str, Any]:
        """A reference to the schema of response data. Later releases may add fields."""
        return self.of_type(cls.__name__, cls, _Converter(self, is_request=False))

    def add(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Add a schema, and return a reference to it.

        Raises:
            ValueError: another schema has this name.
        """
        if self._schemas.setdefault(name, schema) != schema:
            raise ValueError(f"type {name}: expected one schema of this name, got two that differ")
        return {"$ref": f"#/components/schemas/{name}"}

    def all(self) -> dict[str, Any]:
        return dict(sorted(self._schemas.items()))

    def of_type(self, name: str, cls: type[Struct], converter: "_Converter") -> dict[str, Any]:
        """A reference to the schema of a type under this name."""
        if self._types.get(name) is not cls:
            self._types[name] = cls
            self.add(name, converter.convert(schema_of(cls, typed=True)))
        return {"$ref": f"#/components/schemas/{name}"}


def query_schema(cls: type[Struct]) -> Mapping[str, dict[str, Any]]:
    """The schemas of query parameters, by name."""
    properties: dict[str, dict[str, Any]] = _Converter(Components(), is_request=False).convert(schema_of(cls))[
        "properties"
    ]
    return properties


@frozen
class _Converter:
    """Converts CRD schemas to plain JSON Schema; nested types and maps become components."""

    components: Components
    is_request: bool
    is_nested: bool = False

    def convert(self, schema: dict[str, Any]) -> dict[str, Any]:
        if TYPE in schema:
            # Without a default: client generators do not support objects as defaults, and absent means the same.
            cls: type[Struct] = schema[TYPE]
            described = {"description": schema["description"]} if "description" in schema else {}
            nested = evolve(self, is_nested=True)
            return {**described, **self.components.of_type(cls.__name__ + self._suffix, cls, nested)}
        plain = {key: value for key, value in schema.items() if not key.startswith(_KUBERNETES) and key != "nullable"}
        if schema.get("x-kubernetes-list-type") == "set":
            plain["uniqueItems"] = True
        if schema.get("type") == "string":
            # Only for the API server: on a string with a format they keep it from accepting a list.
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
                plain[key] = self.convert(plain[key])
        is_closed = plain.get("type") == "object" and "additionalProperties" not in plain and _OPEN not in schema
        if self.is_request and is_closed:
            plain["additionalProperties"] = False
        return plain

    @property
    def _suffix(self) -> str:
        return "Input" if self.is_request else ""

    def _property(self, name: str, schema: dict[str, Any], *, is_required: bool) -> dict[str, Any]:
        plain = self._named(name, self.convert(schema))
        if not self.is_request:
            return plain
        if self.is_nested and "default" in plain:
            # A generated client would send the default with every update, and so change a field that its user omitted.
            usual = orjson.dumps(plain.pop("default")).decode()
            plain["description"] = f"{plain.get('description', '')} New objects default to {usual}.".lstrip()
        return plain if is_required else _nullable(plain)

    def _named(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema of a property. A map becomes a component, because client generators make a class of it."""
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
