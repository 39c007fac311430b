"""How much a JSON text may hold, judged from its bytes: before anything is built of it, and in a few milliseconds."""

from typing import Final

__all__ = ["MOST_VALUES", "holds_too_much"]

MOST_VALUES: Final = 4_000
"""Items of lists and fields of objects, in all. The largest body that any route takes has fewer."""

_OPENING_AND_BETWEEN: Final = (b",", b"[", b"{")


def holds_too_much(data: bytes, most: int = MOST_VALUES) -> bool:
    """Whether a JSON list or object has more than `most` items and fields; an empty one inside it counts as one.

    Guarantees:
        Each step is one pass of the machine over the bytes, and what it makes is bounded: a megabyte takes a few
        milliseconds, whatever is in it. A text that is no JSON may be judged either way, but what can be parsed of it
        up to its first fault is never too much.
    """
    if _marks(data) <= most:
        return False
    # Marks inside strings do not count. Unescaped quotes delimit the strings.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Each item or field has a key and a value at most.
    if plain.count(b'"') > 4 * most:
        return True
    return _marks(b"".join(plain.split(b'"')[::2])) > most


def _marks(data: bytes) -> int:
    return sum(data.count(mark) for mark in _OPENING_AND_BETWEEN)
