import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.field_selectors import FieldSelector, FieldTerm, parse_field_selector
from gpuruntime.meta.label_selectors import SelectorError

paths = st.sampled_from(["metadata.name", "metadata.namespace", "status.phase"])
values = st.sampled_from(["", "a", r"\,=!", "a=b,c"]) | st.text(max_size=5)
selectors = st.builds(
    FieldSelector, st.lists(st.builds(FieldTerm, paths, st.sampled_from(["=", "!="]), values), max_size=3)
)


@given(selectors)
def test_a_selector_round_trips_through_text(selector: FieldSelector) -> None:
    assert parse_field_selector(str(selector)) == selector


@given(selectors, st.dictionaries(paths, values))
def test_matching_agrees_with_a_naive_model(selector: FieldSelector, fields: dict[str, str]) -> None:
    expected = all((fields.get(term.path) or "") == term.value for term in selector.terms if term.operator == "=")
    expected &= all((fields.get(term.path) or "") != term.value for term in selector.terms if term.operator == "!=")

    assert selector.matches(fields) == expected


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("a=b", "a=b"),
        ("a==b", "a=b"),
        ("c!=d,a=b", "a=b,c!=d"),
        (",a=b,,", "a=b"),
        ("a=", "a="),
        (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
        ("a=x!y", "a=x!y"),
        ("a= b", "a= b"),
    ],
)
def test_selectors_are_parsed_as_by_the_api_server(text: str, canonical: str) -> None:
    assert str(parse_field_selector(text)) == canonical


@pytest.mark.parametrize(
    ("text", "position"),
    [("a", 1), ("=b", 0), ("a=b,c", 5), ("a=b=c", 3), (r"a=\x", 2), ("a=b\\", 3), ("a b=c", 1), ("a=b, c=d", 4)],
)
def test_a_syntax_error_has_its_position(text: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)

    assert caught.value.position == position


@pytest.mark.parametrize("path", ["", "a,b", "a=b", "a b"])
def test_a_path_that_cannot_be_written_in_a_selector_is_rejected(path: str) -> None:
    with pytest.raises(SelectorError, match="field path"):
        FieldTerm(path, "=", "x")


@given(st.text(alphabet=r"ab=!,\ ."))
def test_no_input_raises_any_other_error(text: str) -> None:
    try:
        selector = parse_field_selector(text)
    except SelectorError:
        return
    assert parse_field_selector(str(selector)) == selector
