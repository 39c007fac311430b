"""Immutable fields as CEL transition rules."""

import re
from typing import Any, Final

from gpuruntime.schema.failures import DefinitionError

__all__ = ["absent_field_rule", "present_field_rule"]

_RESERVED: Final = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"}
) | frozenset({"import", "let", "loop", "package", "namespace", "return", "var", "void", "while"})
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def present_field_rule(wire: str) -> dict[str, Any]:
    """The rule on a field that is always present."""
    return {"rule": "self == oldSelf", "message": f"{wire} is immutable"}


def absent_field_rule(wire: str, where: str) -> dict[str, Any]:
    """The rule on the parent of a field that may be absent: it can be neither changed, nor set, nor unset.

    A rule on the field itself would not be evaluated if only one of the two objects has it.
    """
    name = _identifier(wire, where)
    return {
        "rule": f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})",
        "message": f"{wire} is immutable, and can be neither set nor unset",
        "fieldPath": f".{wire}" if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", wire) else f"['{wire}']",
    }


def _identifier(wire: str, where: str) -> str:
    if wire in _RESERVED:
        return f"__{wire}__"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", wire):
        raise DefinitionError(where, f"{wire!r} is not a valid CEL identifier, which Immutable needs; rename the field")
    return re.sub(r"__|[-./]", lambda match: _ESCAPES[match[0]], wire)
