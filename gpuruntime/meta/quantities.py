"""Kubernetes quantities ("100m", "1.5Gi", "2e3"), exact to the nano-unit as in the API server."""

import re
from decimal import Context, Decimal
from typing import Final, Literal

from attrs import field, frozen

__all__ = ["Notation", "Quantity", "QuantityError", "parse_quantity"]

Notation = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

_NANO_DIGITS: Final = 9
_NANO: Final = 10**_NANO_DIGITS
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {0: "", **{power: suffix for suffix, power in _BINARY.items()}}

_TEXT: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE](?P<exponent>[+-]?[0-9]{1,4}))?"
)
# More than any resource needs, but small enough to keep arithmetic on hostile input cheap.
_LENGTH_LIMIT: Final = 256
_BINARY_MAXIMUM: Final = (2**63 - 1) * _NANO


class QuantityError(ValueError):
    """A string is not a quantity."""


@frozen(order=True)
class Quantity:
    """An amount and its notation. Order, equality and hash depend on the amount only."""

    nanos: int
    notation: Notation = field(default="DecimalSI", eq=False, order=False)

    def __add__(self, other: "Quantity") -> "Quantity":
        """The sum, in the notation of the left operand unless that is zero, as in Kubernetes."""
        return Quantity(self.nanos + other.nanos, self.notation if self.nanos else other.notation)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return self + -other

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nanos, self.notation)

    def __str__(self) -> str:
        return self.canonical()

    def canonical(self) -> str:
        """The canonical form of this amount in its notation: no fraction, and the largest possible suffix.

        Binary notation falls back to decimal for fractions and for amounts below 1024.

        Caveats: the API server stores some values unchanged ("1.500", "+1Ki"), so compare quantities, not strings.
        """
        if not self.nanos:
            return "0"
        if self.notation == "BinarySI" and abs(self.nanos) >= 1024 * _NANO and self.nanos % _NANO == 0:
            number, power = _without_factor(self.nanos // _NANO, 1024, at_most=6)
            return f"{number}{_BINARY_SUFFIX[power]}"
        at_most = None if self.notation == "DecimalExponent" else 9
        number, thousands = _without_factor(self.nanos, 1000, at_most=at_most)
        exponent = 3 * thousands - _NANO_DIGITS
        if self.notation == "DecimalExponent":
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{_DECIMAL_SUFFIX[exponent]}"

    def to_decimal(self) -> Decimal:
        """The exact amount, independent of the current decimal context."""
        return Decimal(self.nanos).scaleb(-_NANO_DIGITS, Context(prec=max(len(str(self.nanos)), 1)))

    def ceil(self) -> int:
        """The amount rounded up to a whole number, for instance of devices or bytes."""
        return -(-self.nanos // _NANO)


def parse_quantity(text: str | int) -> Quantity:
    """Parse a quantity from a string, or from an unquoted integer of a manifest.

    As in Kubernetes, fractions of a nano-unit are rounded away from zero, and binary amounts are capped at 2**63 - 1.

    Raises:
        QuantityError: not a quantity, or longer than 256 characters.
    """
    if isinstance(text, int):
        return Quantity(text * _NANO)
    match = _TEXT.fullmatch(text) if len(text) <= _LENGTH_LIMIT else None
    if match is None or not (match["whole"] or match["fraction"]):
        raise QuantityError(f"expected a quantity such as 100m, 1.5Gi or 2e3, got {text[:80]!r}")
    fraction, suffix = match["fraction"] or "", match["suffix"] or ""
    digits = int(match["whole"] + fraction)
    notation: Notation
    if match["exponent"] is not None:
        notation, scale = "DecimalExponent", int(match["exponent"])
    elif suffix in _BINARY:
        notation, scale = "BinarySI", 0
        digits *= 1024 ** _BINARY[suffix]
    else:
        notation, scale = "DecimalSI", _DECIMAL[suffix]
    nanos = _scaled(digits, scale - len(fraction) + _NANO_DIGITS)
    if notation == "BinarySI":
        nanos = min(nanos, _BINARY_MAXIMUM)
        if 0 < nanos < _NANO:
            notation = "DecimalSI"
    return Quantity(-nanos if match["sign"] == "-" else nanos, notation)


def _scaled(digits: int, exponent: int) -> int:
    if exponent >= 0:
        return int(digits * 10**exponent)
    return int(-(-digits // 10**-exponent))


def _without_factor(number: int, factor: int, at_most: int | None) -> tuple[int, int]:
    times = 0
    while number % factor == 0 and times != at_most:
        number //= factor
        times += 1
    return number, times
