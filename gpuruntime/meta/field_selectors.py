r"""Field selectors: `metadata.name=a,status.phase!=Running`, with `\\`, `\,` and `\=` escaped in values."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from attrs import field, frozen

from gpuruntime.meta.label_selectors import SelectorError

__all__ = ["FieldSelector", "FieldTerm", "parse_field_selector"]

_PATH: Final = re.compile(r"[^=!,\\\s]+")
_OPERATOR: Final = re.compile(r"!=|==?")
_VALUE: Final = re.compile(r"(?:[^\\,=]|\\[\\,=])*")
_ESCAPED: Final = re.compile(r"\\([\\,=])")
_SPECIAL: Final = re.compile(r"[\\,=]")


@frozen(order=True)
class FieldTerm:
    """One condition on a field: it must, or must not, have a value.

    Raises:
        SelectorError: the path cannot be written in a selector.
    """

    path: str
    operator: Literal["=", "!="]
    value: str

    def __attrs_post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise SelectorError(f"expected a field path such as metadata.name, got {self.path[:80]!r}")

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the fields satisfy the term; as on the server, an absent field counts as ""."""
        return (fields.get(self.path, "") == self.value) == (self.operator == "=")

    def __str__(self) -> str:
        return f"{self.path}{self.operator}{_SPECIAL.sub(lambda found: chr(92) + found[0], self.value)}"


def _sorted_terms(terms: Iterable[FieldTerm]) -> tuple[FieldTerm, ...]:
    return tuple(sorted(set(terms)))


@frozen
class FieldSelector:
    """A conjunction of terms; an empty one matches everything. `parse_field_selector(str(selector)) == selector`.

    The server decides which fields are supported: every kind supports `metadata.name` and `metadata.namespace`.
    """

    terms: tuple[FieldTerm, ...] = field(default=(), converter=_sorted_terms)

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all(term.matches(fields) for term in self.terms)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


def parse_field_selector(text: str) -> FieldSelector:
    """Parse a field selector. Empty terms are skipped, as on the server.

    Raises:
        SelectorError: a syntax error; it has the position of the first unexpected character.
    """
    terms: list[FieldTerm] = []
    position = 0
    while position < len(text):
        if text[position] == ",":
            position += 1
            continue
        path = _PATH.match(text, position)
        if path is None:
            raise SelectorError(f"expected a field path, got {text[position]!r}", text, position)
        operator = _OPERATOR.match(text, path.end())
        if operator is None:
            raise SelectorError("expected '=', '==' or '!='", text, path.end())
        # The pattern matches at least the empty value.
        value = _VALUE.match(text, operator.end()) or operator
        position = value.end()
        if position < len(text) and text[position] != ",":
            raise SelectorError(
                f"expected ',' or an escaped character, got {text[position : position + 2]!r}", text, position
            )
        terms.append(
            FieldTerm(
                path[0], "!=" if operator[0] == "!=" else "=", _ESCAPED.sub(r"\1", text[operator.end() : position])
            )
        )
    return FieldSelector(terms)
