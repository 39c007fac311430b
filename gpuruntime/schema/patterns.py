r"""Regular expressions that mean the same to the API server (RE2) and to Python.

The dialects share most of their syntax, with subtle differences: `$` ignores a trailing line break in Python but not in
RE2, `\d`, `\w` and `\b` match Unicode in Python, `\s` matches a vertical tab in Python only, `{,3}` is a quantifier in
Python and literal text in RE2.
"""

import re
from functools import cache
from typing import Final

__all__ = ["PatternError", "choices_of", "compiled", "first_mismatch"]

_ESCAPE: Final = r"(?P<escape>\\(?:x[0-9A-Fa-f]{2}|.))"
_OUTSIDE: Final = re.compile(
    _ESCAPE + r"|(?P<open>\[\^?\]?)|(?P<group>\(\?(?:P<\w+>|.?))|(?P<end>\$)"
    r"|(?P<quantifier>(?:[*+?]|\{[0-9]*,?[0-9]*\})[?+]?)|(?P<other>.)",
    re.DOTALL,
)
_INSIDE: Final = re.compile(
    _ESCAPE + r"|(?P<close>\])|(?P<foreign>\[:|--)|(?P<literal>[\[&|~])|(?P<other>.)", re.DOTALL
)
_SPACE: Final = r"\t\n\f\r "
_SAME: Final = frozenset("dDwWtnfrv")
_REPEAT_LIMIT: Final = 1000
_CHOICES: Final = re.compile(r"\^\(([-\w]+(?:\|[-\w]+)*)\)\$")
_OF_ONE_CLASS: Final = re.compile(r"\^(\[(?:[^\]\\]|\\.)+\])[*+]\$")


class PatternError(ValueError):
    """A regular expression that RE2 or Python does not support, or that they interpret differently."""


@cache
def compiled(regex: str) -> re.Pattern[str]:
    r"""The expression compiled for `search` in Python, with the meaning that it has in the API server.

    Raises:
        PatternError: look-around, back-references, possessive quantifiers, inline flags, Unicode and POSIX classes,
            escapes other than those of punctuation, `\d`, `\s`, `\w`, `\b`, `\t`, `\n`, `\f`, `\r`, `\v`, `\x00`.
    """
    translated, position, inside = [], 0, False
    while token := (_INSIDE if inside else _OUTSIDE).match(regex, position):
        position = token.end()
        translated.append(_translation(regex, token, inside=inside))
        inside = token.lastgroup == "open" or (inside and token.lastgroup != "close")
    try:
        return re.compile("".join(translated), re.ASCII)
    except re.error as error:
        raise PatternError(f"{regex!r} is not a regular expression: {error}") from error


def choices_of(regex: str) -> tuple[str, ...]:
    """The texts that an expression of the form ^(A|B)$ matches; none for other expressions."""
    choices = _CHOICES.fullmatch(regex)
    return tuple(choices[1].split("|")) if choices else ()


def first_mismatch(regex: str, text: str) -> int | None:
    """The position of the first character that an expression of the form ^[...]*$ or ^[...]+$ does not allow.

    None for other expressions, and if every character is allowed.
    """
    of_one_class = _OF_ONE_CLASS.fullmatch(regex)
    allowed = compiled(f"{of_one_class[1]}*").match(text) if of_one_class else None
    return allowed.end() if allowed is not None and allowed.end() < len(text) else None


def _translation(regex: str, token: re.Match[str], *, inside: bool) -> str:
    text = token[0]
    match token.lastgroup:
        case "escape" if (translated := _escape(text[1:], inside=inside)) is not None:
            return translated
        case "literal":
            return f"\\{text}"
        case "end":
            return r"\Z"
        case "group" if text == "(?:" or text.startswith("(?P<"):
            return text
        case "quantifier" if _is_shared(text):
            return text
        case "open" | "close" | "other":
            return text
    raise PatternError(
        f"{regex!r} has {text!r} at {token.start()}, which RE2 and Python do not share; rewrite the pattern"
    )


def _escape(text: str, *, inside: bool) -> str | None:
    if text == "s":
        return _SPACE if inside else f"[{_SPACE}]"
    if text == "S" and not inside:
        return f"[^{_SPACE}]"
    if text in _SAME or len(text) == 3 or (text in "bB" and not inside):
        return f"\\{text}"
    if text.isascii() and not text.isalnum():
        return re.escape(text)
    return None


def _is_shared(quantifier: str) -> bool:
    if not quantifier.startswith("{"):
        return not quantifier.endswith("+") or quantifier == "+"
    numbers = [int(number) for number in re.findall(r"[0-9]+", quantifier)]
    return quantifier[1].isdigit() and not quantifier.endswith("+") and max(numbers) <= _REPEAT_LIMIT
