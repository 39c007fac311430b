"""attrs validators for numeric options; their errors name the field, the value and what is expected."""

import math
from typing import Any

from attrs import Attribute

__all__ = ["above_zero", "at_least_one", "not_negative"]


def at_least_one(options: object, attribute: "Attribute[Any]", value: object) -> None:
    """Require a whole number of at least 1.

    Raises:
        TypeError: not a whole number.
        ValueError: less than 1.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{_name(options, attribute)}: expected a whole number of at least 1, got {value!r}")
    if value < 1:
        raise ValueError(f"{_name(options, attribute)}: expected a whole number of at least 1, got {value}")


def above_zero(options: object, attribute: "Attribute[Any]", value: object) -> None:
    """Require finite seconds above 0.

    Raises:
        TypeError: not a number.
        ValueError: not above 0, or not finite.
    """
    if not 0 < _number(options, attribute, value, "finite seconds above 0") < math.inf:
        raise ValueError(f"{_name(options, attribute)}: expected finite seconds above 0, got {value}")


def not_negative(options: object, attribute: "Attribute[Any]", value: object) -> None:
    """Require finite seconds of at least 0.

    Raises:
        TypeError: not a number.
        ValueError: below 0, or not finite.
    """
    if not 0 <= _number(options, attribute, value, "finite seconds of at least 0") < math.inf:
        raise ValueError(f"{_name(options, attribute)}: expected finite seconds of at least 0, got {value}")


def _number(options: object, attribute: "Attribute[Any]", value: object, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{_name(options, attribute)}: expected {expected}, got {value!r}")
    return value


def _name(options: object, attribute: "Attribute[Any]") -> str:
    return f"{type(options).__name__}.{attribute.name}"
