"""Which worker gets the next run: the one with the fewest, and among equals one of the function's present revision."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

__all__ = ["Candidate", "choose"]


class Candidate(Protocol):
    """What the choice needs of a worker."""

    @property
    def free(self) -> int:
        """Runs that it can take now."""

    @property
    def running(self) -> int:
        """Runs that it has."""

    @property
    def revision(self) -> str:
        """The revision of the function that it runs."""


W = TypeVar("W", bound=Candidate)


def choose(workers: Iterable[W], revision: str | None) -> W | None:
    """The worker for the next run; None if no slot is free. `revision` is the function's present one.

    Among equals it is the first: callers that move the chosen one to the end take turns.
    """
    best: W | None = None
    fewest, is_new = 0, False
    for worker in workers:
        if worker.free <= 0:
            continue
        running = worker.running
        if best is None or running < fewest or (running == fewest and not is_new and worker.revision == revision):
            best, fewest, is_new = worker, running, worker.revision == revision
    return best
