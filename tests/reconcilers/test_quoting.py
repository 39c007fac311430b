"""Quotations of programs and of Kubernetes."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.reconcilers.quoting import QUOTE_LIMIT, beginning_of, end_of


@given(st.text(max_size=3000))
def test_whatever_a_program_says_a_quotation_is_one_bounded_line_without_control_characters(text: str) -> None:
    for quoted in (beginning_of(text), end_of(text)):
        assert len(quoted) <= QUOTE_LIMIT + 1
        assert len(quoted.splitlines()) <= 1
        assert not {unicodedata.category(character) for character in quoted} & {"Cc", "Cs", "Zl", "Zp"}


@given(st.text(alphabet=st.characters(categories=["L", "N", "P"]), max_size=QUOTE_LIMIT))
def test_a_short_line_is_quoted_as_it_is(text: str) -> None:
    assert beginning_of(text) == end_of(text) == text


def test_of_a_long_text_the_beginning_or_the_end_is_kept() -> None:
    text = f"first {'x' * 1000} last"

    assert beginning_of(text).startswith("first")
    assert end_of(text).endswith("last")
    assert beginning_of(text)[-1] == end_of(text)[0] == "…"


def test_colours_of_a_terminal_leave_nothing_behind() -> None:
    assert end_of("\x1b[1;31mERROR\x1b[0m\r\n\tno model\x00") == "ERROR no model"
