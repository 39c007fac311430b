"""JSON files by which a process tells others of what it runs."""

import json
from pathlib import Path
from typing import Any

__all__ = ["publish", "read_published"]


def publish(path: Path, document: Any, *, is_secret: bool = False) -> None:
    """Write a document atomically: a reader finds the file before, if any, or all of the new one.

    A secret file is never readable by other users, not even while it is written. One process at a time publishes it.
    """
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)  # a writer that was killed may have left it, with another mode
    draft.touch(mode=0o600 if is_secret else 0o666)
    draft.write_text(json.dumps(document, indent=2))
    draft.replace(path)


def read_published(path: Path) -> Any | None:
    """The document, or None if there is none."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
