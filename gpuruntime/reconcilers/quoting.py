"""Words of programs and of Kubernetes, made fit for a condition: one line, no control characters, bounded."""

import re
from typing import Final

__all__ = ["QUOTE_LIMIT", "beginning_of", "end_of"]

QUOTE_LIMIT: Final = 800
"""The maximum length of a quotation, in characters, without the ellipsis."""

_ELLIPSIS: Final = "…"
_TERMINAL_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-_])")
# Control and format characters, line separators, and halves of characters, which JSON cannot express.
_UNPRINTABLE: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+")


def beginning_of(text: str) -> str:
    """The beginning of a text: an error of Kubernetes says first what is wrong."""
    line = _one_line(text)
    return line if len(line) <= QUOTE_LIMIT else f"{line[:QUOTE_LIMIT]}{_ELLIPSIS}"


def end_of(text: str) -> str:
    """The end of a text: the last lines of a log say why a program ended."""
    line = _one_line(text)
    return line if len(line) <= QUOTE_LIMIT else f"{_ELLIPSIS}{line[-QUOTE_LIMIT:]}"


def _one_line(text: str) -> str:
    return _UNPRINTABLE.sub(" ", _TERMINAL_SEQUENCE.sub("", text)).strip()
