"""Decode errors: all problems of a JSON value, with their JSON paths."""

import re
from collections.abc import Iterable
from typing import Any, Final, Self

from attrs import evolve, frozen

__all__ = ["DecodeError", "Failure", "Mismatch", "failures_of"]

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTE_LIMIT: Final = 80


class DecodeError(ValueError):
    """A JSON value does not match its type.

    `failures` has one string per problem, such as "expected an integer, got 'abc' @ $.spec.replicas"; the message joins
    them. Values of sensitive fields are not quoted.
    """

    def __init__(self, subject: str, failures: Iterable[str]) -> None:
        self.subject: Final = subject
        self.failures: Final = tuple(failures)
        super().__init__(f"cannot decode {subject}: {'; '.join(self.failures)}")

    def __reduce__(self) -> tuple[type[Self], tuple[str, tuple[str, ...]]]:
        return type(self), (self.subject, self.failures)


@frozen
class Failure:
    """One problem: its text with the invalid value, its text without it, and its path from the decoded value."""

    text: str
    redacted: str
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return f"{self.text} @ ${''.join(_step(part) for part in self.path)}"


class Mismatch(Exception):  # noqa: N818  # internal to the decoder; users get DecodeError
    """The error of a hook. The hook of the enclosing value prepends its own key to the path."""

    def __init__(self, failures: Iterable[Failure]) -> None:
        super().__init__()
        self.failures: Final = tuple(failures)

    @classmethod
    def expected(cls, what: str, got: Any) -> Self:
        return cls([Failure(f"expected {what}, got {_quote(got)}", f"expected {what}, got {_noun(got)}")])

    @classmethod
    def plain(cls, text: str, *path: str | int) -> Self:
        """A problem whose text quotes no value."""
        return cls([Failure(text, text, path)])


def failures_of(error: Exception, key: str | int | None = None, *, sensitive: bool = False) -> list[Failure]:
    """The failures of a hook's exception, with paths from the enclosing value, which has the value under `key`."""
    if isinstance(error, Mismatch):
        found = list(error.failures)
    else:
        # The validators of attrs add the attribute and the value to the arguments of the exception.
        found = [Failure(str(error.args[0]) if error.args else type(error).__name__, "invalid value")]
    if key is not None:
        found = [evolve(failure, path=(key, *failure.path)) for failure in found]
    if sensitive:
        found = [evolve(failure, text=failure.redacted) for failure in found]
    return found


def _step(part: str | int) -> str:
    if isinstance(part, str) and _PLAIN_KEY.fullmatch(part):
        return f".{part}"
    return f"[{part!r}]"


def _quote(value: Any) -> str:
    if value is None or isinstance(value, bool | dict | list | tuple):
        return _noun(value)
    text = repr(value)
    return text if len(text) <= _QUOTE_LIMIT else text[:_QUOTE_LIMIT] + "..."


def _noun(value: Any) -> str:  # noqa: PLR0911  # a table in all but name; bool must come before int
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return "an integer"
        case float():
            return "a number with a fraction"
        case str():
            return "a string"
        case dict():
            return "an object"
        case list() | tuple():
            return "a list"
    return f"a {type(value).__name__}"
