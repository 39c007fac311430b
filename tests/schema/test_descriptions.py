import sys
from types import ModuleType

import pytest
from attrs import frozen

from gpuruntime.meta import Struct
from gpuruntime.schema.descriptions import class_description, field_descriptions
from gpuruntime.schema.failures import DefinitionError
from gpuruntime.schema.structural import schema_of
from tests.schema.rich_kind import WidgetSpec


@frozen
class Base(Struct):
    """The base.

    It has
    two paragraphs.
    """

    first: int = 1
    """The first.

    With a second
    paragraph.
    """

    bare: int = 2


@frozen
class Derived(Base):
    second: int = 3
    "The second."


def test_paragraphs_are_kept_and_lines_are_joined() -> None:
    assert class_description(Base) == "The base.\n\nIt has two paragraphs."
    assert field_descriptions(Base) == {"first": "The first.\n\nWith a second paragraph."}


def test_fields_are_inherited_with_their_descriptions_and_docstrings_are_not() -> None:
    assert class_description(Derived) == ""
    assert field_descriptions(Derived)["first"].startswith("The first.")
    assert field_descriptions(Derived)["second"] == "The second."


def test_classes_inside_functions_are_found() -> None:
    @frozen
    class Local(Struct):
        part: int = 1
        """A local part."""

    assert field_descriptions(Local) == {"part": "A local part."}


def test_a_field_is_described_by_its_literal_or_else_by_its_type() -> None:
    properties = schema_of(WidgetSpec)["properties"]

    assert properties["size"]["description"] == "How big it is.\n\nIt cannot change."
    assert properties["window"]["description"] == "When the widget may be touched."
    assert "description" not in properties["name"]


def test_a_type_without_source_has_a_schema_but_no_definition() -> None:
    module = ModuleType("typed_at_a_prompt")
    exec(  # noqa: S102 -- what a prompt does
        "from attrs import frozen\nfrom gpuruntime.meta import Struct\n@frozen\nclass Typed(Struct):\n    a: int = 1\n",
        module.__dict__,
    )
    sys.modules[module.__name__] = module

    with pytest.raises(DefinitionError, match="typed_at_a_prompt"):
        schema_of(module.Typed)

    assert schema_of(module.Typed, described=False)["properties"]["a"]["default"] == 1
    del sys.modules[module.__name__]
