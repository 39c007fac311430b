"""Priorities with ageing, so that no key starves."""

from typing import Final

__all__ = ["AGEING", "LOW_PRIORITY", "rank"]

AGEING: Final = 0.3
"""Seconds of waiting that are worth one point of priority."""

LOW_PRIORITY: Final = -100
"""The priority of background work such as the initial sync and resyncs. It yields to normal keys for up to 30 s."""


def rank(ready_at: float, priority: int) -> float:
    """The position of a key in the queue: the lowest rank is served first.

    The rank is fixed when a key becomes ready. It ages the key nevertheless, because later keys start from a later
    time. So a heap can hold it, and nothing is ever sorted again.

    Guarantees:
        A key of priority p that became ready at time t is overtaken only by keys of a higher priority q that became
        ready before t + (q - p) * AGEING. Keys of equal priority are served in the order in which they became ready.
    """
    return ready_at - priority * AGEING
