from collections.abc import Iterator
from typing import Annotated, ClassVar

import pytest
from attrs import frozen
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuruntime.meta import Definition, Format, ResourceKind, Struct, TypedObject
from gpuruntime.schema.custom_resource import definition
from gpuruntime.schema.formats import FORMATS
from gpuruntime.schema.structural import schema_of
from gpuruntime.schema.validation import violations
from gpuruntime.testing import ClusterAccess, RefusedError
from tests.schema.generated_objects import UNSHRUNK
from tests.schema.installed import Installed, installed


@frozen
class FormattedSpec(Struct):
    byte: Annotated[str, Format("byte")] | None = None
    date: Annotated[str, Format("date")] | None = None
    date_time: Annotated[str, Format("date-time")] | None = None
    k8s_long_name: Annotated[str, Format("k8s-long-name")] | None = None
    k8s_short_name: Annotated[str, Format("k8s-short-name")] | None = None
    password: Annotated[str, Format("password")] | None = None
    uuid: Annotated[str, Format("uuid")] | None = None


@frozen
class Formatted(TypedObject):
    KIND = ResourceKind("definitions.example.org", "v1", "Formatted", "formatted", namespaced=True)
    DEFINITION: ClassVar = Definition()

    spec: FormattedSpec


FIELDS = schema_of(FormattedSpec)["properties"]
TEXTS = st.one_of(
    st.from_regex(r"[0-9]{4}-[01][0-9]-[0-3][0-9]", fullmatch=True),
    st.from_regex(r"202[01]-02-29[tT x][0-2][0-9]:[0-6][0-9]:[0-6][0-9](.[0-9]{0,2})?([zZ]|\+00:00)?"),
    st.from_regex(r"[A-Za-z0-9+/=-]{0,9}\n?", fullmatch=True),
    st.from_regex(r"[a-z0-9-]{0,3}(\.[a-zA-Z0-9-]{0,3})?", fullmatch=True),
    st.uuids().map(str),
    st.from_regex(r"[0-9a-fA-F]{31,33}", fullmatch=True),
    st.integers(60, 260).map(lambda length: "a" * length),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)


@pytest.fixture(scope="module")
def formatted(kube_cluster: ClusterAccess) -> Iterator[Installed]:
    with installed(kube_cluster, definition(Formatted), "default") as kind:
        yield kind


@settings(phases=UNSHRUNK, max_examples=200)
@given(name=st.sampled_from(sorted(FIELDS)), text=TEXTS)
@example(name="date", text="0000-02-29")
@example(name="dateTime", text="2020-01-01T24:00:00Z")
@example(name="dateTime", text="2020-01-01T00:00:00x5Z")
@example(name="dateTime", text="2020-01-01t00:00:00zt")
@example(name="byte", text="")
@example(name="k8sLongName", text="a." * 127)
def test_a_format_has_the_meaning_of_the_server(formatted: Installed, name: str, text: str) -> None:
    wire = {"spec": {name: text}}

    try:
        formatted.dry_run(wire)
        answer = ""
    except RefusedError as error:
        answer = str(error)

    assert bool(violations(wire, Formatted)) == bool(answer), answer


def test_every_supported_format_is_compared() -> None:
    assert {schema["format"] for schema in FIELDS.values()} == set(FORMATS)
