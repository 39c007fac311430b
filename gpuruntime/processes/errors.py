"""The error of a process that cannot start."""

from collections.abc import Iterable

__all__ = ["StartError"]


class StartError(Exception):
    """A process cannot start, for reasons that its operator can fix; each of `problems` is one line for the operator.

    Any other exception that leaves a process is a bug of ours, and shows its traceback.
    """

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))
