"""Schemas of OpenAPI 3.1 from wire types: what the definitions of kinds say, in the words of JSON Schema."""

from typing import Any, Final

from gpuruntime.control.definitions.schema import schema_of
from gpuruntime.meta.structs import Struct

__all__ = ["request_schema", "response_schema"]

_KUBERNETES: Final = "x-kubernetes-"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"


def request_schema(cls: type[Struct]) -> dict[str, Any]:
    """What a body may be. Unknown fields are refused, and null is as good as absent."""
    return _plain(schema_of(cls), request=True)


def response_schema(cls: type[Struct]) -> dict[str, Any]:
    """What an answer is. Further fields may come with any release."""
    return _plain(schema_of(cls), request=False)


def _plain(schema: dict[str, Any], *, request: bool) -> dict[str, Any]:
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
            key: _property(inner, request=request, required=key in required)
            for key, inner in plain["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if key in plain:
            plain[key] = _plain(plain[key], request=request)
    if request and plain.get("type") == "object" and "additionalProperties" not in plain and _OPEN not in schema:
        plain["additionalProperties"] = False
    return plain


def _property(schema: dict[str, Any], *, request: bool, required: bool) -> dict[str, Any]:
    plain = _plain(schema, request=request)
    if not request or required:
        return plain
    if "type" in plain:
        plain["type"] = [plain["type"], "null"]
    if "enum" in plain:
        plain["enum"] = [*plain["enum"], None]
    if "anyOf" in plain:
        plain["anyOf"] = [*plain["anyOf"], {"type": "null"}]
    return plain
