import pytest

from gpuruntime.schema.failures import DefinitionError
from gpuruntime.schema.immutability import absent_field_rule, present_field_rule


def test_a_field_that_is_always_present_has_the_plain_rule() -> None:
    assert present_field_rule("size") == {"rule": "self == oldSelf", "message": "size is immutable"}


@pytest.mark.parametrize(
    ("wire", "name", "path"),
    [
        ("color", "color", ".color"),
        ("namespace", "__namespace__", ".namespace"),
        ("a-b.c/d", "a__dash__b__dot__c__slash__d", "['a-b.c/d']"),
        ("a__b", "a__underscores__b", ".a__b"),
    ],
)
def test_names_are_escaped_for_cel(wire: str, name: str, path: str) -> None:
    rule = absent_field_rule(wire, "Widget.spec")

    assert rule["rule"] == (
        f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})"
    )
    assert rule["fieldPath"] == path


def test_a_name_that_is_invalid_in_cel_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Widget\.spec: '\$ref'"):
        absent_field_rule("$ref", "Widget.spec")
