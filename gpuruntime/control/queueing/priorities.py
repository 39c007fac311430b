"""How urgency and waiting time weigh against each other, so that nobody starves."""

from typing import Final

__all__ = ["AGEING", "LOW_PRIORITY", "rank"]

AGEING: Final = 0.3
"""The seconds of waiting that weigh as much as one point of priority."""

LOW_PRIORITY: Final = -100
"""The priority of what nobody waits for, such as the initial sync and resyncs: it yields to normal keys for 30 s."""


def rank(ready_at: float, priority: int) -> float:
    """The place of a key in the order of service: the lowest is served first.

    It is fixed when a key becomes ready, and yet ages it, since everyone who comes later starts from a later time. So
    a heap can keep it, and nothing is ever sorted again.

    Guarantees:
        A key of priority p that became ready at the time t is overtaken only by keys of a higher priority q that became
        ready before t + (q - p) * AGEING. Of one priority, nobody who became ready later is served earlier.
    """
    return ready_at - priority * AGEING
