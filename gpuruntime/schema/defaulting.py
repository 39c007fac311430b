"""Defaulting as in the API server, before validation: nulls dropped, defaults filled in."""

from typing import Any

from gpuruntime.meta import thaw

__all__ = ["completed"]


def completed(value: Any, schema: dict[str, Any]) -> Any:
    """A copy of the JSON value without nulls in fields that are not nullable, and with the defaults of the schema.

    Guarantees:
        The result is that of the server, so it is idempotent. Values of a wrong type and unknown fields are kept.
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
