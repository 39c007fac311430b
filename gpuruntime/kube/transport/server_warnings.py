"""Warning headers of API servers, such as for a deprecated API version: each text is logged once."""

import logging
import re
from collections.abc import Iterable
from typing import Final

__all__ = ["WarningLog", "parse_warnings"]

log = logging.getLogger(__name__)

# 299 agent "text", as in RFC 7234, optionally with a date. A header may hold several, separated by commas.
_WARNING: Final = re.compile(r'([0-9]{3}) ([^ "]+) "((?:[^"\\]|\\.)*)"(?: "[^"]*")?\s*(?:,\s*|$)')
_ESCAPED: Final = re.compile(r"\\(.)")
_MISCELLANEOUS_PERSISTENT: Final = "299"
_REMEMBERED: Final = 1000
_TEXT_LIMIT: Final = 1024


def parse_warnings(header: str) -> list[str]:
    """The texts of the warnings of code 299 in a Warning header, up to the first syntax error."""
    texts: list[str] = []
    position = 0
    while found := _WARNING.match(header, position):
        position = found.end()
        code, _, text = found.groups()
        if code == _MISCELLANEOUS_PERSISTENT:
            texts.append(_ESCAPED.sub(r"\1", text)[:_TEXT_LIMIT])
    return texts


class WarningLog:
    """Logs each text once, for the last `remembered` texts."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        # In order of first appearance.
        self._seen: dict[str, None] = {}

    def note(self, headers: Iterable[str]) -> None:
        """Log the new texts in the Warning headers of one response."""
        for header in headers:
            for text in parse_warnings(header):
                if text not in self._seen:
                    self._remember(text)
                    log.warning("API server warning", extra={"warning": text})

    def _remember(self, text: str) -> None:
        if len(self._seen) >= self._remembered:
            del self._seen[next(iter(self._seen))]
        self._seen[text] = None
