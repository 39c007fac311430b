import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta import ObjectKey
from gpuruntime.service.reads.paging import CursorError, cursor_of, parse_cursor


@given(st.text(st.characters(codec="ascii", exclude_characters="/")), st.text(st.characters(codec="ascii")))
def test_a_cursor_leads_back_to_where_it_came_from(namespace: str, name: str) -> None:
    key = ObjectKey(namespace, name)

    cursor = cursor_of(key)

    assert parse_cursor(cursor) == key
    assert cursor.replace("-", "").replace("_", "").isalnum()


@given(st.text())
def test_any_other_text_is_refused_and_never_more_than_that(text: str) -> None:
    try:
        found = parse_cursor(text)
    except CursorError:
        return

    assert cursor_of(found) == text


@pytest.mark.parametrize("text", ["", "a", "abc", "YQ", "YS9i=", "YS9j\n", "YS9i" * 1000])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(CursorError, match="expected what an earlier page gave as next"):
        parse_cursor(text)
