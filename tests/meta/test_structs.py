from typing import Any

import pytest
from attrs import NOTHING, field, fields, frozen

from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.structs import Struct, default_of, is_sensitive, wire, wire_name


@frozen
class Inner(Struct):
    size: int = 0


@frozen
class Outer(Struct):
    plain: str
    two_words: int | None = None
    cluster_ip: str | None = field(default=None, metadata=wire("clusterIP"))
    from_: tuple[str, ...] = ()
    password: str | None = field(default=None, metadata=wire(sensitive=True))
    hidden: int | None = field(default=None, repr=False)
    inner: Inner = field(factory=Inner)


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [("plain", "plain"), ("two_words", "twoWords"), ("cluster_ip", "clusterIP"), ("from_", "from")],
)
def test_python_names_become_wire_names(attribute: str, expected: str) -> None:
    assert wire_name(fields(Outer).__getattribute__(attribute)) == expected


def test_only_declared_fields_are_sensitive() -> None:
    assert [attribute.name for attribute in fields(Outer) if is_sensitive(attribute)] == ["password"]


def test_defaults_factories_and_required_fields_are_distinguished() -> None:
    defaults = {attribute.name: default_of(attribute) for attribute in fields(Outer)}

    assert defaults["plain"] is NOTHING
    assert defaults["two_words"] is None
    assert defaults["inner"] == Inner()


def test_a_repr_shows_the_set_fields_and_hides_secrets() -> None:
    extra: FrozenDict[str, Any] = FrozenDict({"newField": 1})

    shown = repr(Outer("x", password="hunter2", hidden=1, inner=Inner(3), extra=extra))

    assert shown == "Outer(plain='x', password=***, inner=Inner(size=3), extra=FrozenDict({'newField': 1}))"
    assert repr(Outer("x")) == "Outer(plain='x')"


def test_a_custom_repr_is_kept() -> None:
    @frozen
    class Named(Struct):
        name: str = ""

        def __repr__(self) -> str:
            return f"<{self.name}>"

    assert repr(Named("x")) == "<x>"


def test_structs_are_values() -> None:
    assert Outer("x") == Outer("x", extra=EMPTY)
    assert len({Outer("x"), Outer("x"), Outer("x", extra=FrozenDict(a=1))}) == 2
    assert not hasattr(Outer("x"), "__dict__")
