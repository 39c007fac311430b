"""Breaking changes of CRDs, compared with released ones in files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpuruntime.schema import Breakage, breaking_changes

__all__ = ["ReleasedError", "changes_since", "read_definitions"]


class ReleasedError(Exception):
    """The released definitions cannot be read; the message says what to do."""


def read_definitions(directory: Path) -> dict[str, dict[str, Any]]:
    """The CustomResourceDefinitions in the YAML files of a directory, by name.

    Raises:
        ReleasedError: there is none, or a file is not YAML.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted([*directory.glob("*.yaml"), *directory.glob("*.yml")]):
        try:
            documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        except yaml.YAMLError as error:
            raise ReleasedError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
        for document in documents:
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition":
                found[document["metadata"]["name"]] = document
    if not found:
        raise ReleasedError(
            f"{directory} has no CustomResourceDefinition: expected YAML files of an earlier `generate crds --out`"
        )
    return found


def changes_since(released: dict[str, dict[str, Any]], new: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Breakage]]:
    """The changes by the name of the definition. A new kind breaks nothing; a removed kind breaks its users."""
    current = {item["metadata"]["name"]: item for item in new}
    for name, old in released.items():
        if name in current:
            for breakage in breaking_changes(old, current[name]):
                yield name, breakage
        else:
            yield name, Breakage("breaking", "spec", "is gone: its objects are deleted with it, and clients fail")
