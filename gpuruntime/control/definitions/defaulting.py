"""What the API server makes of an object before it looks at rules: nulls dropped, defaults filled in."""

from typing import Any

from gpuruntime.meta import thaw

__all__ = ["completed"]


def completed(value: Any, schema: dict[str, Any]) -> Any:
    """A copy of the JSON value with nulls of fields that cannot be null left out, and the defaults of the schema.

    Guarantees: the same result as on the server, so completing twice changes nothing. Values of a wrong type and
    unknown fields are kept as they are.
    """
    if isinstance(value, dict):
        return _completed_object(value, schema)
    if isinstance(value, list | tuple):
        items = schema.get("items", {})
        return [completed(item, items) for item in value]
    return value


def _completed_object(value: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    result = {}
    for key, item in value.items():
        inner = properties.get(key, others)
        if item is not None or inner is None or inner.get("nullable"):
            result[key] = completed(item, inner) if inner is not None else thaw(item)
    for key, inner in properties.items():
        if "default" in inner and key not in result:
            result[key] = completed(inner["default"], inner)
    return result
