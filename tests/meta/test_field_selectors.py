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
def test_a_selector_survives_its_text(selector: FieldSelector) -> None:
    assert parse_field_selector(str(selector)) == selector


@given(selectors, st.dictionaries(paths, values))
def test_matching_agrees_with_the_plain_meaning(selector: FieldSelector, fields: dict[str, str]) -> None:
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
def test_texts_mean_what_the_api_server_takes_them_for(text: str, canonical: str) -> None:
    assert str(parse_field_selector(text)) == canonical


@pytest.mark.parametrize(
    ("text", "position"),
    [("a", 1), ("=b", 0), ("a=b,c", 5), ("a=b=c", 3), (r"a=\x", 2), ("a=b\\", 3), ("a b=c", 1), ("a=b, c=d", 4)],
)
def test_a_malformed_text_is_refused_with_the_position(text: str, position: int) -> None:
    with pytest.raises(SelectorError, match=f"at position {position} of ") as caught:
        parse_field_selector(text)

    assert caught.value.position == position


@pytest.mark.parametrize("path", ["", "a,b", "a=b", "a b"])
def test_a_path_that_no_text_could_hold_is_refused(path: str) -> None:
    with pytest.raises(SelectorError, match="expected a field path"):
        FieldTerm(path, "=", "x")


@given(st.text(alphabet=r"ab=!,\ ."))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        selector = parse_field_selector(text)
    except SelectorError:
        return
    assert parse_field_selector(str(selector)) == selector
