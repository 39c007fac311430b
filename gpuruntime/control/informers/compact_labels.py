"""Label selection of objects kept as JSON bytes, without decoding them.

The labels of an object are encoded first, so a selector is matched against the first bytes.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from gpuruntime.meta.label_selectors import Requirement, Selector

__all__ = ["labels_first", "selects"]

_START: Final = b'{"metadata":{"labels":{'
_AT: Final = len(_START) - 1
# The characters of Kubernetes labels: none is escaped in JSON, and none is a brace or a quote.
_PLAIN: Final = re.compile(r"[-A-Za-z0-9_./]*")


def labels_first(raw: dict[str, Any]) -> dict[str, Any]:
    """The object with its metadata first, and its labels first in there."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        return raw
    labels = metadata.get("labels")
    if not isinstance(labels, dict) or not _are_plain(labels):
        return raw
    ordered = {"metadata": None, **raw}
    ordered["metadata"] = {"labels": labels, **metadata}
    return ordered


def selects(selector: Selector) -> Callable[[bytes], bool]:
    """A function that matches the JSON of an object, encoded labels first, against the selector."""
    tests = [_test(requirement) for requirement in selector.requirements]

    def selected(kept: bytes) -> bool:
        if not kept.startswith(_START):
            return selector.matches(_labels(kept))
        end = kept.index(b"}", _AT)
        for is_wanted, needles in tests:
            for needle in needles:
                if kept.find(needle, _AT, end) >= 0:
                    if not is_wanted:
                        return False
                    break
            else:
                if is_wanted:
                    return False
        return True

    return selected


def _test(requirement: Requirement) -> tuple[bool, tuple[bytes, ...]]:
    """Bytes of which one must (True) or none may (False) be among the labels."""
    key = requirement.key
    if requirement.operator in {"Exists", "DoesNotExist"}:
        return requirement.operator == "Exists", (f'"{key}":'.encode(),)
    return requirement.operator == "In", tuple(f'"{key}":"{value}"'.encode() for value in requirement.values)


def _are_plain(labels: dict[Any, Any]) -> bool:
    try:
        return _PLAIN.fullmatch("".join(labels) + "".join(labels.values())) is not None
    except TypeError:
        return False


def _labels(kept: bytes) -> dict[str, str]:
    """The labels of an object that has none, or unusual ones."""
    if b'"labels":' not in kept:
        return {}
    labels = orjson.loads(kept)["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}
