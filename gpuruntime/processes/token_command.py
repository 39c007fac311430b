"""`gpuruntime token`: a bearer token for a caller of the API, and its line in the token file."""

import argparse
import sys
from pathlib import Path

from gpuruntime.web.auth.scopes import GrantError, parse_scope
from gpuruntime.web.auth.token_file import TokenFileError, new_token

__all__ = ["add", "run"]


def add(parser: argparse.ArgumentParser) -> None:
    """Say what the command is, and what flags it has."""
    parser.description = (
        "Make a bearer token for a caller of the API. Its hash is added to the token file, which a running process"
        " reads again by itself; the token is printed, and kept nowhere."
    )
    parser.add_argument("name", metavar="NAME", help="who the caller is; it stands in the audit log")
    parser.add_argument("scope", metavar="SCOPE", help="read, write or operator; each includes those before it")
    parser.add_argument("--file", type=Path, required=True, metavar="FILE", help="the token file")


def run(arguments: argparse.Namespace) -> int:
    """Do what the command line says: 0 if there is a new token."""
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
        # In one write, so that a manager never reads a half of it.
        file.write("\n" * (text != "" and not text.endswith("\n")) + f"{line}\n")
