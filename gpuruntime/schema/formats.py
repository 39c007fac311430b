"""String formats, validated as in the API server."""

import re
from collections.abc import Callable
from datetime import date
from typing import Final

__all__ = ["FORMATS"]

_HEX: Final = "[0-9a-fA-F]"
_BASE64: Final = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_UUID: Final = re.compile(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}")
_SHORT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONG_NAME: Final = re.compile(rf"{_SHORT_NAME.pattern}(\.{_SHORT_NAME.pattern})*")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Any character may precede the fraction: the server's pattern does not escape its dot.
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    # Go has a year 0, which is a leap year like 2000; Python does not.
    try:
        date.fromisoformat("2000" + text[4:] if text.startswith("0000") else text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    parts = text.lower().split("t")
    time = _TIME.fullmatch(parts[1]) if len(parts) > 1 and _is_date(parts[0]) else None
    return time is not None and time[1] <= "23" and time[2] <= "59" and time[3] <= "59"


FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
    "date": _is_date,
    "date-time": _is_date_time,
    "k8s-long-name": lambda text: len(text) <= 253 and _LONG_NAME.fullmatch(text) is not None,
    "k8s-short-name": lambda text: len(text) <= 63 and _SHORT_NAME.fullmatch(text) is not None,
    "password": lambda _text: True,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
}
