"""Figures and bars: the samples of each contender, and whether they meet the limits."""

import statistics
from collections.abc import Mapping
from fractions import Fraction

from attrs import field, frozen

__all__ = ["Bar", "Figure", "Summary"]


@frozen
class Summary:
    """Median, minimum and maximum of samples."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, samples: tuple[float, ...]) -> "Summary":
        """Summarise at least one sample."""
        return cls(statistics.median(samples), min(samples), max(samples))


@frozen
class Bar:
    """The upper limit of a contender's median: absolute, or a multiple of the median of the contender `times`."""

    contender: str
    limit: float
    times: str | None = None

    def text(self, unit: str) -> str:
        if self.times is None:
            return f"at most {self.limit:g} {unit}"
        if self.limit < 1:
            return f"at most {Fraction(self.limit).limit_denominator(20)} of {self.times}"
        return f"at most {self.limit:g}x {self.times}"


@frozen
class Figure:
    """One measured quantity: the samples of each contender, and the failures.

    A contender that failed in one round counts as failed.
    """

    name: str
    unit: str
    samples: Mapping[str, tuple[float, ...]]
    failures: Mapping[str, str] = field(factory=dict)
    bars: tuple[Bar, ...] = ()

    def summary(self, contender: str) -> Summary | None:
        """The summary of a contender; None if it failed or has no samples."""
        samples = self.samples.get(contender, ())
        return Summary.of(samples) if samples and contender not in self.failures else None

    def ratio(self, contender: str, reference: str) -> float | None:
        """The median of a contender divided by that of `reference`; None if one is not known."""
        mine, other = self.summary(contender), self.summary(reference)
        return mine.median / other.median if mine and other and other.median > 0 else None

    def met(self, bar: Bar) -> bool | None:
        """Whether a bar is met; None if a median is not known."""
        mine = self.summary(bar.contender)
        if bar.times is None:
            return None if mine is None else mine.median <= bar.limit
        other = self.summary(bar.times)
        return None if mine is None or other is None else mine.median <= bar.limit * other.median
