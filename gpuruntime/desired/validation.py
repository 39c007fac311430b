"""What is wrong with stored specs: the rules of their types, which the API server enforces only in part.

A spec may also have been stored before a rule existed. A unit without violations can be rendered, and the API server
accepts its children as rendered.
"""

from collections.abc import Iterable
from typing import Final

from attrs import evolve

from gpuruntime.meta import Struct
from gpuruntime.schema import Violation, violations

__all__ = ["MESSAGE_LIMIT", "format_violations", "spec_violations"]

MESSAGE_LIMIT: Final = 8192
"""The maximum length of a condition message with violations, in characters."""


def spec_violations(spec: Struct) -> tuple[Violation, ...]:
    """All rules that the spec of an object violates, with paths from the object; none if it can be rendered.

    Fields that this version does not know are no violation: a newer version may have stored them.

    Guarantees: values that may be secret are not quoted.
    """
    found = violations(spec, type(spec))
    return tuple(
        evolve(violation, path=f"spec.{violation.path}".rstrip("."))
        for violation in found
        if violation.rule != "unknown"
    )


def format_violations(found: Iterable[Violation]) -> str:
    """All violations in one text, truncated to `MESSAGE_LIMIT`; "" if there are none."""
    return "; ".join(map(str, found))[:MESSAGE_LIMIT]
