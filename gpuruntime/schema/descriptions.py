"""Descriptions from source code: the docstring of a class, and the string literal below a field.

Paragraphs are kept and line breaks within them are removed: `kubectl explain` wraps lines itself.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from attrs import fields

from gpuruntime.meta import Struct
from gpuruntime.schema.failures import DefinitionError

__all__ = ["DECLARED_IN", "class_description", "field_descriptions"]

DECLARED_IN: Final = "gpuruntime.declared_in"
"""Metadata of a field that a class has from another one without being derived from it: the other class."""


def class_description(cls: type) -> str:
    """The docstring of the class itself, never an inherited one; empty if there is none."""
    return _paragraphs(cls.__dict__.get("__doc__") or "")


def field_descriptions(cls: type[Struct]) -> Mapping[str, str]:
    """The literals below the fields of a class, of its bases, and of `DECLARED_IN`, by Python name.

    Raises:
        DefinitionError: the source cannot be read, as in an interpreter session.
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Struct) and base is not Struct:
            found |= _of_module(base.__module__).get(base.__qualname__, {})
    for attribute in fields(cls):
        source = attribute.metadata.get(DECLARED_IN)
        if source is not None:
            found |= {name: text for name, text in field_descriptions(source).items() if name == attribute.name}
    return found


@cache
def _of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    module = sys.modules.get(name)
    try:
        source = inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError) as error:
        raise DefinitionError(name, "its source cannot be read, which has the descriptions of fields") from error
    return dict(_classes(ast.parse(source), ""))


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, dict[str, str]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield prefix + child.name, _literals(child)
            yield from _classes(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(child, f"{prefix}{child.name}.<locals>.")
        else:
            yield from _classes(child, prefix)


def _literals(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            found[field.target.id] = _paragraphs(below.value.value)
    return found


def _paragraphs(text: str) -> str:
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(joined for paragraph in paragraphs if (joined := " ".join(paragraph.split())))
