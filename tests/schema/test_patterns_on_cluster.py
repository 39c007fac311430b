from collections.abc import Iterator
from typing import Annotated, ClassVar

import pytest
from attrs import frozen
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gpuruntime.meta import Cel, Definition, Length, ResourceKind, Struct, TypedObject
from gpuruntime.schema.custom_resource import definition
from gpuruntime.schema.patterns import PatternError, compiled
from gpuruntime.testing import ClusterAccess, RefusedError
from tests.schema.generated_objects import UNSHRUNK
from tests.schema.installed import Installed, installed


@frozen
class MatchSpec(Struct):
    """The server's regular expression engine as an oracle: CEL uses the same one as patterns of a schema."""

    RULES: ClassVar[tuple[Cel, ...]] = (Cel("self.text.matches(self.regex)", message="no match"),)

    regex: Annotated[str, Length(maximum=64)]
    text: Annotated[str, Length(maximum=64)]


@frozen
class Match(TypedObject):
    KIND = ResourceKind("definitions.example.org", "v1", "Match", "matches", namespaced=True)
    DEFINITION: ClassVar = Definition()

    spec: MatchSpec


@pytest.fixture(scope="module")
def matches(kube_cluster: ClusterAccess) -> Iterator[Installed]:
    with installed(kube_cluster, definition(Match), "default") as kind:
        yield kind


ATOMS = st.sampled_from(
    [
        *"aB1-_]}{,&|~ é^$.",
        *(r"\s", r"\S", r"\d", r"\W", r"\b", r"\.", r"\-", r"\x41"),
        *("[a-c]", "[^a]", "[]a]", r"[\s]", r"[^\s]", r"[\d_]", "[[]", "[a|&]"),
        *("(a|b)", "(?:a$)", "(?P<n>1)"),
    ]
)
SUFFIXES = st.sampled_from(["", "", "", "*", "+", "?", "*?", "{2}", "{0,1}", "{1,}", "{,2}"])
REGEXES = st.lists(st.tuples(ATOMS, SUFFIXES).map("".join), max_size=4).map("".join)
TEXTS = st.text("aBc1-_.]}{,&|~ é\n\t\vA$", max_size=4)


@settings(phases=UNSHRUNK, max_examples=150)
@given(regex=REGEXES, text=TEXTS)
@example(regex="^a$", text="a\n")
@example(regex=r"\s", text="\v")
@example(regex=r"\d", text="\u0661")
@example(regex=r"\b", text="é")
def test_python_and_the_server_find_the_same_matches(matches: Installed, regex: str, text: str) -> None:
    assume(regex)
    try:
        pattern = compiled(regex)
    except PatternError:
        assume(False)

    try:
        matches.dry_run({"spec": {"regex": regex, "text": text}})
        answer = ""
    except RefusedError as error:
        answer = str(error)

    assert (pattern.search(text) is None) == bool(answer), answer
    assert not answer or "no match" in answer
