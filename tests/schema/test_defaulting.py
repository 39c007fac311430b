from typing import Any

import attrs
from hypothesis import given

from gpuruntime.meta import Struct, decode
from gpuruntime.schema.defaulting import completed
from gpuruntime.schema.structural import schema_of
from tests.schema.generated_objects import valid
from tests.schema.rich_kind import WidgetSpec

SPEC = schema_of(WidgetSpec)


def fields_of(value: Any) -> Any:
    """Every field with its value, on the wire or not."""
    if isinstance(value, Struct):
        known = [attribute.name for attribute in attrs.fields(type(value)) if attribute.name != "extra"]
        return {name: fields_of(getattr(value, name)) for name in known}
    if isinstance(value, tuple):
        return [fields_of(item) for item in value]
    if isinstance(value, dict):
        return {key: fields_of(item) for key, item in value.items()}
    return value


@given(valid(SPEC))
def test_the_servers_defaults_are_those_of_python(spec: dict[str, Any]) -> None:
    written = decode(WidgetSpec, spec)

    read = decode(WidgetSpec, completed(spec, SPEC))

    expected = fields_of(written)
    # The one field with a default that only the server knows.
    expected["replicas"] = 1 if written.replicas is None else written.replicas
    assert fields_of(read) == expected


@given(valid(SPEC))
def test_defaulting_is_idempotent(spec: dict[str, Any]) -> None:
    once = completed(spec, SPEC)

    assert completed(once, SPEC) == once


def test_nulls_count_as_absent_and_parents_of_defaults_are_created() -> None:
    spec: dict[str, Any] = {
        "size": 1,
        "name": None,
        "low": None,
        "anything": None,
        "windows": {"a": None, "b": {}},
        "tags": [None],
    }

    complete = completed(spec, SPEC)

    assert "name" not in complete
    assert complete["low"] == 0
    assert complete["window"] == {"grace": 30}
    assert complete["windows"] == {"b": {"grace": 30}}
    assert (complete["anything"], complete["tags"]) == (None, [None])
