"""`gpuruntime back-up`: copies the database of a result store, also while a process writes to it."""

import argparse
import sys
from pathlib import Path
from typing import Final

from gpuruntime.archive.sqlite import back_up
from gpuruntime.archive.store import StoreError

__all__ = ["COMMAND"]


class _BackUpCommand:
    """Writes a copy of the database, and prints how many results it has."""

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add description and flags."""
        parser.description = (
            "Copy the database of the result store, while the result store runs or not. The copy is one state of the"
            " database, and is checked; it has its name only when it is whole. It needs as much room as the database."
        )
        parser.add_argument("--database", type=Path, required=True, metavar="FILE", help="database.file of its config")
        parser.add_argument(
            "--out", type=Path, required=True, metavar="FILE", help="the copy, which must not exist yet"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Copy; 1 if the database or the target cannot be used."""
        try:
            count = back_up(arguments.database, arguments.out)
        except StoreError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(f"{arguments.out}: {count} results")
        return 0


COMMAND: Final = _BackUpCommand()
