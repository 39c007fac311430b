"""Kubernetes object names: DNS-1123 checks, and shortening of long names without collisions."""

import re
from hashlib import sha256
from typing import Final

__all__ = [
    "LABEL_LIMIT",
    "SUBDOMAIN_LIMIT",
    "clamp",
    "is_dns_label",
    "is_dns_subdomain",
    "is_label_value",
    "is_qualified_name",
]

LABEL_LIMIT: Final = 63
SUBDOMAIN_LIMIT: Final = 253

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_WORD: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_HASH_LENGTH: Final = 10
# At least one character of the name, a dash, and the hash.
_SHORTEST: Final = _HASH_LENGTH + 2


def is_dns_label(name: str) -> bool:
    """Whether the name is a DNS-1123 label, as required of namespaces and containers."""
    return len(name) <= LABEL_LIMIT and _LABEL.fullmatch(name) is not None


def is_dns_subdomain(name: str) -> bool:
    """Whether the name is a DNS-1123 subdomain: labels joined by dots, 253 characters in all.

    As in Kubernetes, the parts between the dots may be longer than 63 characters.
    """
    return len(name) <= SUBDOMAIN_LIMIT and all(_LABEL.fullmatch(part) for part in name.split("."))


def is_qualified_name(name: str) -> bool:
    """Whether the name is one of a label, an annotation or a finalizer: a word, after a DNS name and a slash or not."""
    prefix, slash, word = name.rpartition("/")
    return (not slash or is_dns_subdomain(prefix)) and len(word) <= LABEL_LIMIT and _WORD.fullmatch(word) is not None


def is_label_value(value: str) -> bool:
    """Whether the text is a valid value of a label; the empty text is."""
    return not value or (len(value) <= LABEL_LIMIT and _WORD.fullmatch(value) is not None)


def clamp(name: str, limit: int = LABEL_LIMIT) -> str:
    """The name itself if it fits into `limit` characters, otherwise its beginning and a hash of the whole name.

    Guarantees: the result is the same in all versions of this library. It is a valid label or subdomain if the name is
    one apart from its length. Different long names give different results, except for collisions of 40 bits of SHA-256.

    Raises:
        ValueError: the limit is too small for a hash.
    """
    if limit < _SHORTEST:
        raise ValueError(f"expected a limit of at least {_SHORTEST}, got {limit}")
    if len(name) <= limit:
        return name
    digest = sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{name[: limit - _HASH_LENGTH - 1].rstrip('-.')}-{digest}"
