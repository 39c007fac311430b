"""`gpuruntime token`: creates a bearer token for a caller of the API, with its line in the token file."""

import argparse
import sys
from pathlib import Path
from typing import Final

from gpuruntime.endpoints.auth.scopes import GrantError, parse_scope
from gpuruntime.endpoints.auth.token_file import TokenFileError, new_token

__all__ = ["COMMAND"]


class _TokenCommand:
    """Appends the hash of a new token to the token file, and prints the token."""

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add description and flags."""
        parser.description = (
            "Create a bearer token for a caller of the API or of the access gateway. Its hash is appended to the token"
            " file, which a running process reloads; the token is printed and not stored."
        )
        parser.add_argument("name", metavar="NAME", help="name of the caller, for the audit log")
        parser.add_argument(
            "scope",
            metavar="SCOPE",
            help="read, write or operator, each of which includes those before it; access, for the access gateway; or"
            " both, such as write+access",
        )
        parser.add_argument("--file", type=Path, required=True, metavar="FILE", help="the token file")

    def run(self, arguments: argparse.Namespace) -> int:
        """Create a token; 1 if the name or the scope is invalid, or the file cannot be written."""
        try:
            made = new_token(arguments.name, parse_scope(arguments.scope))
            _append(arguments.file, made.line)
        except (GrantError, TokenFileError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(made.token)
        return 0


def _append(path: Path, line: str) -> None:
    path.touch(mode=0o600)
    text = path.read_text(encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        # In one write, so that a process never reads half a line.
        file.write("\n" * (text != "" and not text.endswith("\n")) + f"{line}\n")


COMMAND: Final = _TokenCommand()
