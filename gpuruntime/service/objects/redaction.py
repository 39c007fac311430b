"""Redaction of messages that may quote secrets of an object: a kubelet quotes the command that it cannot start."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote

from attrs import fields

from gpuruntime.meta import MASK, FrozenDict, Struct, is_sensitive, wire_name

__all__ = ["redacted", "secret_texts"]

# Shorter texts occur in many messages by chance, and are no secrets.
_SHORTEST: Final = 4
_ELLIPSIS: Final = "…"
_URL_CHARACTERS: Final = "!#$%&'()*+,/:;=?@[]~"


def secret_texts(value: Any, path: str = "", *, sensitive: bool = False) -> Iterator[tuple[str, str]]:
    """Every text of a sensitive field, with its path."""
    match value:
        case str() if sensitive:
            yield path, value
        case Struct():
            for attribute in fields(type(value)):
                here = f"{path}.{wire_name(attribute)}" if path else wire_name(attribute)
                inner = getattr(value, attribute.name)
                yield from secret_texts(inner, here, sensitive=sensitive or is_sensitive(attribute))
        case tuple():
            for index, item in enumerate(value):
                yield from secret_texts(item, f"{path}[{index}]", sensitive=sensitive)
        case FrozenDict() if sensitive:
            for key, item in value.items():
                yield from secret_texts(item, f"{path}.{key}", sensitive=True)


def redacted(message: str | None, holder: Struct, *, is_current: bool) -> str | None:
    """A message without the secrets of the object that it is about, also where it quotes them escaped, with whitespace
    collapsed, or truncated. A message about an earlier generation may quote secrets that are unknown now: it is masked
    as a whole.
    """
    if not message:
        return message
    if not is_current:
        return MASK
    forms = sorted({form for _, text in secret_texts(holder) for form in _forms(text)}, key=len, reverse=True)
    # Longest first: a secret may be a part of another one.
    for form in forms:
        message = message.replace(form, MASK)
    first, *others = message.split(_ELLIPSIS)
    # What was cut may have begun in the part before, or have ended in the part after.
    parts = [first, *(_without_suffix_at_beginning(part, forms) for part in others)]
    return _ELLIPSIS.join((*(_without_prefix_at_end(part, forms) for part in parts[:-1]), parts[-1]))


def _forms(text: str) -> Iterator[str]:
    if len(text) >= _SHORTEST:
        yield text
        yield " ".join(text.split())
        # A kubelet quotes the URL of a probe.
        yield quote(text, safe=_URL_CHARACTERS)
        for ascii_only in (True, False):
            yield json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def _without_prefix_at_end(message: str, forms: Iterable[str]) -> str:
    """A truncated message without the beginning of a secret at its end."""
    for form in forms:
        for length in range(min(len(form), len(message)), _SHORTEST - 1, -1):
            if message.endswith(form[:length]):
                return message[:-length] + MASK
    return message


def _without_suffix_at_beginning(message: str, forms: Iterable[str]) -> str:
    """A message without the end of a secret at its beginning."""
    for form in forms:
        for length in range(min(len(form), len(message)), _SHORTEST - 1, -1):
            if message.startswith(form[-length:]):
                return MASK + message[length:]
    return message
