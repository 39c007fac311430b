"""Validation problems of a spec: the field, what was expected, and what was found."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from attrs import frozen

from gpuruntime.meta import Requirement, SelectorError, is_dns_subdomain

__all__ = [
    "MESSAGE_LIMIT",
    "Problem",
    "bad_choice",
    "bad_label",
    "bad_number",
    "bad_object_name",
    "bad_text",
    "format_problems",
    "repeated",
]

_SHOWN: Final = 80
MESSAGE_LIMIT: Final = 8192
"""The maximum length of a condition message with problems, in characters."""


@frozen
class Problem:
    """One invalid field; its text reads "spec.gpu: expected a number from 0 to 1024, got -1"."""

    path: str
    expected: str
    found: str = ""

    @classmethod
    def of(cls, path: str, expected: str, value: Any) -> "Problem":
        """A problem that quotes the value; not for values that may be secret."""
        shown = repr(value)
        return cls(path, expected, shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…")

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}" + (f", got {self.found}" if self.found else "")


def format_problems(problems: Iterable[Problem]) -> str:
    """All problems in one text, truncated to `MESSAGE_LIMIT`; "" if there are none."""
    return "; ".join(map(str, problems))[:MESSAGE_LIMIT]


def bad_text(path: str, value: str, pattern: re.Pattern[str], limit: int, expected: str) -> Iterator[Problem]:
    if len(value) > limit or pattern.fullmatch(value) is None:
        yield Problem.of(path, f"{expected} of at most {limit} characters", value)


def bad_number(path: str, value: int | None, least: int, most: int) -> Iterator[Problem]:
    if value is not None and not least <= value <= most:
        yield Problem.of(path, f"a number from {least} to {most}", value)


def bad_choice(path: str, value: str | None, choices: tuple[str, ...]) -> Iterator[Problem]:
    if value is not None and value not in choices:
        yield Problem.of(path, f"one of {', '.join(choices)}", value)


def bad_object_name(path: str, value: str) -> Iterator[Problem]:
    if not is_dns_subdomain(value):
        yield Problem.of(path, "the name of an object (lower-case letters, digits, '-' and '.')", value)


def bad_label(path: str, key: str, value: str) -> Iterator[Problem]:
    try:
        Requirement(key, "In", (value,))
    except SelectorError as error:
        yield Problem(path, str(error).removeprefix("expected "))


def repeated(path: str, values: tuple[Any, ...], what: str) -> Iterator[Problem]:
    for index, value in enumerate(values):
        if value in values[:index]:
            yield Problem.of(f"{path}[{index}]", f"each {what} only once", value)
