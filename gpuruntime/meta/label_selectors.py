"""Label selectors: the string grammar of the API, the `metav1.LabelSelector` form, and matching.

Grammar: requirements joined by commas, each one of `key=value`, `key==value`, `key!=value`, `key in (a,b)`,
`key notin (a,b)`, `key`, `!key`, with optional white space. The `<` and `>` of node affinity are not supported.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, Self, get_args

from attrs import field, frozen

from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.names import is_label_value, is_qualified_name
from gpuruntime.meta.structs import Struct

__all__ = ["LabelSelector", "LabelSelectorRequirement", "Requirement", "Selector", "SelectorError", "parse_selector"]

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]

_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(?P<word>[^ \t\r\n=!(),<>]+)|(?P<symbol>==|!=|[=!(),])|(?P<end>\Z))")


class SelectorError(ValueError):
    """A selector that the API server would reject. `position` is a 0-based offset into the text, None without text."""

    def __init__(self, problem: str, text: str | None = None, position: int | None = None) -> None:
        self.position: Final = position
        super().__init__(problem if text is None else f"{problem} at position {position} of {text[:256]!r}")


def _check_key(key: str) -> None:
    if not is_qualified_name(key):
        raise SelectorError(f"expected a label key such as app or example.org/app, got {key[:320]!r}")


def _check_value(value: str) -> None:
    if not is_label_value(value):
        raise SelectorError(f"expected a label value of at most 63 letters, digits, '-', '_', '.', got {value[:80]!r}")


def _sorted_values(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


@frozen(order=True)
class Requirement:
    """One condition on a label. Values are sorted and unique.

    Raises:
        SelectorError: an invalid key or value, an unknown operator, values for an operator that takes none, or no
            values for one that needs them.
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = field(default=(), converter=_sorted_values)

    def __attrs_post_init__(self) -> None:
        if self.operator not in get_args(Operator):
            raise SelectorError(f"expected operator {', '.join(get_args(Operator))}, got {self.operator!r}")
        _check_key(self.key)
        if bool(self.values) != (self.operator in {"In", "NotIn"}):
            wanted = "no values" if self.values else "at least one value"
            raise SelectorError(f"expected {wanted} for {self.operator} on label {self.key}, got {len(self.values)}")
        for value in self.values:
            _check_value(value)

    def matches(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return self.key in labels and labels[self.key] in self.values
            case "NotIn":
                return self.key not in labels or labels[self.key] not in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels

    def __str__(self) -> str:
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "In" if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case "NotIn" if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
        return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"


@frozen
class LabelSelectorRequirement(Struct):
    key: str
    operator: str
    values: tuple[str, ...] = ()


@frozen
class LabelSelector(Struct):
    """The selector in objects such as a Deployment. An empty one selects everything."""

    match_labels: FrozenDict[str, str] = EMPTY
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


def _sorted_requirements(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(requirements)))


@frozen
class Selector:
    """A conjunction of requirements; an empty one matches everything. `parse_selector(str(selector)) == selector`.

    Requirements are sorted, so that selectors with the same requirements are equal and can be cache keys.
    """

    requirements: tuple[Requirement, ...] = field(default=(), converter=_sorted_requirements)

    @classmethod
    def of(cls, selector: LabelSelector) -> Self:
        """The selector of an object's `matchLabels` and `matchExpressions`.

        A missing LabelSelector is left to the caller: depending on the field it selects nothing or everything.

        Raises:
            SelectorError: the API server would reject it.
        """
        pairs = [Requirement(key, "In", (value,)) for key, value in selector.match_labels.items()]
        # Requirement checks the operator, which can be any string on the wire.
        expressions = [
            Requirement(expression.key, expression.operator, expression.values)  # type: ignore[arg-type]  # see above
            for expression in selector.match_expressions
        ]
        return cls((*pairs, *expressions))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def parse_selector(text: str) -> Selector:
    """Parse a label selector; the empty string selects everything.

    Raises:
        SelectorError: a syntax error, with the position of the unexpected token or of the invalid requirement.
    """
    parser = _Parser(text)
    requirements: list[Requirement] = []
    if parser.lexeme is not None:
        requirements.append(parser.requirement())
    while parser.lexeme is not None:
        parser.expect(",")
        requirements.append(parser.requirement())
    return Selector(requirements)


class _Parser:
    """A cursor over the tokens; `lexeme` is None at the end. Keywords are valid as keys and values."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0
        self.position = 0
        self.lexeme: str | None = None
        self._is_word = False
        self._advance()

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._end)
        if match is None:
            spaces = len(self._text) - len(self._text[self._end :].lstrip(" \t\r\n"))
            raise SelectorError(f"unexpected {self._text[spaces]!r}", self._text, spaces)
        self._end = match.end()
        self.lexeme = match["word"] or match["symbol"]
        self.position = self._end - len(self.lexeme or "")
        self._is_word = match["word"] is not None

    def _unexpected(self, expected: str) -> SelectorError:
        got = "the end" if self.lexeme is None else repr(self.lexeme)
        return SelectorError(f"expected {expected}, got {got}", self._text, self.position)

    def expect(self, symbol: str) -> None:
        if self.lexeme != symbol:
            raise self._unexpected(f"{symbol!r}")
        self._advance()

    def _word(self, expected: str) -> str:
        if self.lexeme is None or not self._is_word:
            raise self._unexpected(expected)
        word = self.lexeme
        self._advance()
        return word

    def requirement(self) -> Requirement:
        start = self.position
        try:
            return self._requirement()
        except SelectorError as error:
            if error.position is not None:
                raise
            raise SelectorError(str(error), self._text, start) from error

    def _requirement(self) -> Requirement:
        if self.lexeme == "!":
            self._advance()
            return Requirement(self._word("a label key"), "DoesNotExist")
        key = self._word("a label key or '!'")
        match self.lexeme:
            case None | ",":
                return Requirement(key, "Exists")
            case "=" | "==":
                self._advance()
                return Requirement(key, "In", (self._optional_value(),))
            case "!=":
                self._advance()
                return Requirement(key, "NotIn", (self._optional_value(),))
            case "in":
                self._advance()
                return Requirement(key, "In", self._values())
            case "notin":
                self._advance()
                return Requirement(key, "NotIn", self._values())
        raise self._unexpected("'=', '==', '!=', 'in', 'notin', ',' or the end")

    def _optional_value(self) -> str:
        return "" if self.lexeme in {None, ",", ")"} else self._word("a label value")

    def _values(self) -> tuple[str, ...]:
        self.expect("(")
        values = [self._optional_value()]
        while self.lexeme != ")":
            self.expect(",")
            values.append(self._optional_value())
        self._advance()
        return tuple(values)
