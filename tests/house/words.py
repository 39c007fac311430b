"""A checker for words that a reader has to decode, in Python sources and in Markdown.

It reads what people meet first: names, log messages, names and help texts of metrics, the first paragraph of a
docstring, and the prose of documentation pages. Strings that are data are left alone.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from attrs import frozen

__all__ = ["INSTEAD", "Finding", "prose_findings", "source_findings"]

INSTEAD: Final = {
    "told": "say what happens: reported, logged, notified, returned",
    "somebody": "name the actor: the user, another controller, a client",
    "whoever": "name the actor: the caller, the holder of the lease",
    "so many": "name the number: `count`, `limit`, `replicas`",
    "homes": "use Namespaces",
    "desk": "use ApiServer",
    "places": "use Namespaces, or name what is located: positions, paths, addresses",
    "nowhere": "use OFFLINE_CREDENTIALS, or say what is missing",
    "wish": "use desired state",
    "wishes": "use desired state",
    "shelf": "use Store",
    "crew": "use runnable group",
    "fight": "use write conflict or hot loop",
    "fights": "use write conflicts or hot loops",
    "signs of life": "use liveness or heartbeat",
}
"""Each word, and what to write instead."""

_BANNED: Final = re.compile(rf"\b(?:{'|'.join(re.escape(word) for word in INSTEAD)})\b", re.IGNORECASE)
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LOG_METHODS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
_METRIC: Final = re.compile(r"(?:MetricFamily|^Counter|^Gauge|^Histogram|^Summary|^Info|^Enum)$")
_FENCE: Final = re.compile(r"^ *(`{3,}|~{3,})")
_CODE_SPAN: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_TARGET: Final = re.compile(r"\]\([^)\s]*\)")
_ITEM: Final = re.compile(r" *(?:\||[-*] |\d+\. )")
_AROUND: Final = 40


@frozen(order=True)
class Finding:
    """A banned word: where it is, what holds it, and the text around it."""

    path: str
    line: int
    holder: str
    word: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r} in a {self.holder}, {self.text!r}: {INSTEAD[self.word]}"


def source_findings(path: PurePath, source: str) -> list[Finding]:
    """The banned words of a Python file; `path` is relative to the checkout, and its own parts count as names."""
    texts = [(1, "module name", _spelled(part)) for part in (*path.parent.parts, path.stem)]
    for node in ast.walk(ast.parse(source)):
        texts += [(_line(node), "name", _spelled(name)) for name in _names(node)]
        texts += [(_line(node), holder, text) for holder, text in _messages(node)]
    return _findings(path, texts)


def prose_findings(path: PurePath, markdown: str) -> list[Finding]:
    """The banned words of a Markdown page, outside of code blocks, code spans and the targets of links."""
    return _findings(path, [(line, "paragraph", text) for line, text in _paragraphs(markdown)])


def _findings(path: PurePath, texts: list[tuple[int, str, str]]) -> list[Finding]:
    found = []
    for line, holder, text in texts:
        words = " ".join(text.split())
        first = {match[0].lower(): match for match in reversed(list(_BANNED.finditer(words)))}
        found += [
            Finding(str(path), line, holder, word, words[max(0, match.start() - _AROUND) : match.end() + _AROUND])
            for word, match in first.items()
        ]
    return found


def _spelled(name: str) -> str:
    """The words of a name in any case: `readyUnit` and `ready_unit` are "ready unit"."""
    return " ".join(part.lower() for part in _PARTS.findall(name))


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name


def _messages(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Module() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield "docstring", (ast.get_docstring(node) or "").split("\n\n")[0]
        case ast.Call(func=ast.Attribute(attr=method)) if method in _LOG_METHODS:
            yield from (("log message", text) for text in _strings(node))
        case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)) if _METRIC.search(called):
            yield from (("metric", _spelled(text)) for text in _strings(node))


def _strings(call: ast.Call) -> Iterator[str]:
    """The literal texts among the arguments of a call, those inside of f-strings included."""
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
        yield from (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def _paragraphs(markdown: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items and table rows, each with the number of its first line.

    They are joined from their lines, because a phrase may be broken between two lines.
    """
    fence, start, lines = "", 0, list[str]()
    for number, line in enumerate([*markdown.splitlines(), ""], 1):
        mark = _FENCE.match(line)
        is_code = bool(fence) or mark is not None or (not lines and line.startswith("    "))
        is_prose = bool(line.strip()) and not is_code
        if lines and (not is_prose or _ITEM.match(line)):
            yield start, " ".join(lines)
            lines = []
        if is_prose:
            start = start if lines else number
            lines.append(_TARGET.sub("]", _CODE_SPAN.sub("`", line)))
        if mark is not None and not fence:
            fence = mark[1]
        elif mark is not None and mark[1].startswith(fence) and not line.strip(" `~"):
            fence = ""
