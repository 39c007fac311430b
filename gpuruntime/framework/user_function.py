"""The user's function: what may be served, and how it is called."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuruntime.framework.context import Context

__all__ = ["FunctionError", "UserFunction"]


class FunctionError(Exception):
    """Something that cannot be served as a function. The message says what was expected."""


@dataclass(frozen=True)
class UserFunction:
    """A function of (payload, context), or of (payload) alone."""

    call: Callable[..., Any]
    name: str
    is_async: bool
    takes_context: bool

    @classmethod
    def of(cls, function: Any) -> "UserFunction":
        """Check a function before it is served.

        Raises:
            FunctionError: it cannot be called with a payload, or is a generator.
        """
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        if not callable(function):
            raise FunctionError(f"expected a function of (payload, context), got {function!r}")
        if _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function):
            raise FunctionError(
                f"{name}: it is a generator: streams are not supported yet, return the whole value instead of yielding"
            )
        return cls(function, name, _is(inspect.iscoroutinefunction, function), _takes_context(function, name))

    def __call__(self, payload: Any, context: Context) -> Any:
        return self.call(payload, context) if self.takes_context else self.call(payload)


def _is(check: Callable[[Any], bool], function: Any) -> bool:
    """Whether a function, or the `__call__` of an object, is of a kind."""
    return check(function) or (not inspect.isroutine(function) and check(getattr(function, "__call__", None)))  # noqa: B004 - the method is wanted


def _takes_context(function: Callable[..., Any], name: str) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # A function in C that does not say what it takes.
        return True
    for count in (2, 1):
        try:
            signature.bind(*[None] * count)
        except TypeError:
            continue
        return count == 2
    raise FunctionError(f"{name}: expected a function of (payload, context) or (payload), got {name}{signature}")
