"""The options that every kind of bench has."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

__all__ = ["add_options", "chosen", "positive"]

T = TypeVar("T")


def add_options(parser: argparse.ArgumentParser, names: Mapping[str, object], *, quick: str, rounds: int) -> None:
    """Add --quick, --only, --repeat and --json; `quick` describes what --quick leaves out."""
    parser.add_argument("--quick", action="store_true", help=f"{quick}: to see that it works, not to judge by")
    parser.add_argument("--only", action="append", choices=sorted(names), help="this scenario; may be repeated")
    parser.add_argument("--repeat", type=positive, metavar="N", help=f"rounds (default: {rounds})")
    parser.add_argument("--json", type=_file_to_be, metavar="FILE", help="write every sample to FILE as well")


def chosen(known: Mapping[str, T], only: Sequence[str] | None) -> tuple[T, ...]:
    """The named items in their own order; all if `only` is empty."""
    return tuple(item for name, item in known.items() if not only or name in only)


def positive(text: str) -> int:
    """Parse a number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {number}")
    return number


def _file_to_be(text: str) -> Path:
    """The path of an output file; its directory must exist before the bench starts."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path.parent} does not exist: create it first")
    return path
