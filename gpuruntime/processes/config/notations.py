"""Notations of values: the same in flags, in YAML and in environment variables."""

import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Final, Generic, TypeVar

from attrs import frozen

from gpuruntime.control import HttpAddress
from gpuruntime.meta import LABEL_KEY, LABEL_VALUE, is_dns_label, is_dns_subdomain

__all__ = [
    "ADDRESS",
    "BOOLEAN",
    "DURATION",
    "FILE",
    "IMAGE",
    "LABEL",
    "LABEL_NAME",
    "NAMESPACE",
    "OBJECT_NAME",
    "Notation",
    "NotationError",
    "choice",
    "count",
    "duration",
    "show_seconds",
]

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
_DURATION: Final = re.compile(r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,3})?)(?P<unit>ms|s|m|h)?")
_MILLISECONDS: Final = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_TEXT: Final = frozenset({"str"})
_LONGEST_SHOWN: Final = 80


class NotationError(ValueError):
    """A text is not a value of its notation; the message says what was expected."""


@frozen
class Notation(Generic[T]):
    """The text form of a type of values.

    Args:
        expected: what a text must be, in words that follow "expected".
        read: parses a text; raises ValueError if it is invalid.
        show: formats a value so that `read` returns an equal value.
        types: the YAML types that an unquoted text may have.
        metavar: the placeholder of a value in --help; empty for booleans, whose flags need no value.
    """

    expected: str
    read: Callable[[str], T]
    show: Callable[[T], str]
    types: frozenset[str] = _TEXT
    metavar: str = "VALUE"

    def parse(self, text: str) -> T:
        """The value of a text.

        Raises:
            NotationError: the text is invalid.
        """
        try:
            return self.read(text)
        except ValueError as error:
            raise self.error(repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")) from error

    def error(self, got: str) -> NotationError:
        return NotationError(f"expected {self.expected}, got {got}")


def show_seconds(seconds: float) -> str:
    """A duration in the largest unit that leaves no fraction: 90 seconds are "90s", 3600 are "1h"."""
    milliseconds = round(seconds * 1000)
    unit = next((name for name, size in _MILLISECONDS.items() if milliseconds % size == 0 and milliseconds), "s")
    return f"{milliseconds // _MILLISECONDS[unit]}{unit}"


def duration(*, least: float = 0.0) -> Notation[float]:
    """Seconds, written as `30`, `30s`, `1.5m`, `1h` or `500ms`."""

    def read(text: str) -> float:
        parts = _DURATION.fullmatch(text)
        if parts is None or not text.isascii():
            raise ValueError(text)
        seconds = float(parts["number"]) * _MILLISECONDS[parts["unit"] or "s"] / 1000
        if seconds < least:
            raise ValueError(text)
        return seconds

    bound = f" of at least {show_seconds(least)}" if least else ""
    types = frozenset({"str", "int", "float"})
    return Notation(f"a duration{bound} such as 30s or 5m", read, show_seconds, types, "DURATION")


def count(least: int, most: int) -> Notation[int]:
    """A whole number of `least` to `most`."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return Notation(f"a number of {least} to {most}", read, str, frozenset({"int"}), "N")


def choice(values: type[E]) -> Notation[E]:
    """A value of an enumeration. An unquoted `off`, which YAML 1.1 reads as false, is read as it is written."""
    names = [str(member.value) for member in values]
    types = frozenset({"str", "bool"}) if {"on", "off"} & {*names} else _TEXT
    return Notation(f"one of {', '.join(names)}", values, lambda member: str(member.value), types, "|".join(names))


def _address(text: str) -> HttpAddress:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(text)
    return HttpAddress(host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port))


def _boolean(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(text)
    return text == "true"


def _name(is_name: Callable[[str], bool]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not is_name(text):
            raise ValueError(text)
        return text

    return read


def _file(text: str) -> Path:
    if not text.strip() or "\0" in text:
        raise ValueError(text)
    return Path(text)


def _image(text: str) -> str:
    if not text or text != text.strip() or any(character.isspace() for character in text):
        raise ValueError(text)
    return text


def _label_name(text: str) -> str:
    if not LABEL_KEY.check(text):
        raise ValueError(text)
    return text


def _label(text: str) -> str:
    name, separator, value = text.partition("=")
    if not separator or not LABEL_KEY.check(name) or not LABEL_VALUE.check(value):
        raise ValueError(text)
    return text


DURATION: Final = duration()
ADDRESS: Final[Notation[HttpAddress]] = Notation(
    "host:port with a port of 0 to 65535",
    _address,
    lambda address: address.url.removeprefix("http://"),
    metavar="HOST:PORT",
)
"""`host:port`, `:port` (all interfaces) or `[v6]:port`."""
BOOLEAN: Final[Notation[bool]] = Notation(
    "true or false", _boolean, lambda value: str(value).lower(), frozenset({"bool"}), metavar=""
)
NAMESPACE: Final = Notation("the name of a namespace", _name(is_dns_label), str, metavar="NAME")
OBJECT_NAME: Final = Notation("the name of an object, such as my-lease", _name(is_dns_subdomain), str, metavar="NAME")
FILE: Final[Notation[Path]] = Notation("the path of a file", _file, str, metavar="FILE")
IMAGE: Final = Notation("the name of an image, such as busybox:1.36", _image, str, metavar="IMAGE")
LABEL_NAME: Final = Notation("the name of a label, such as nvidia.com/gpu", _label_name, str, metavar="NAME")
LABEL: Final = Notation("a label, such as pool=gpu", _label, str, metavar="NAME=VALUE")
