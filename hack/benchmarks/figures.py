"""Figures and bars: what was measured of whom, and whether it is good enough. Nothing here measures."""

import statistics
from collections.abc import Mapping
from fractions import Fraction

from attrs import field, frozen

__all__ = ["Bar", "Figure", "Summary"]


@frozen
class Summary:
    """The middle of some samples and how far they spread."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, samples: tuple[float, ...]) -> "Summary":
        """Summarise one sample or more."""
        return cls(statistics.median(samples), min(samples), max(samples))


@frozen
class Bar:
    """The most that a contender may take: so much, or so many times what another contender takes."""

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
    """One thing that was measured: the samples of each contender, and why a contender has none.

    A contender that was measured in some rounds and failed in another counts as failed.
    """

    name: str
    unit: str
    samples: Mapping[str, tuple[float, ...]]
    failures: Mapping[str, str] = field(factory=dict)
    bars: tuple[Bar, ...] = ()

    def summary(self, contender: str) -> Summary | None:
        """The summary of a contender that did not fail and of whom this can be measured."""
        samples = self.samples.get(contender, ())
        return Summary.of(samples) if samples and contender not in self.failures else None

    def ratio(self, contender: str, reference: str) -> float | None:
        """How many times the median of `reference` a contender takes; None where that is not known."""
        mine, other = self.summary(contender), self.summary(reference)
        return mine.median / other.median if mine and other and other.median > 0 else None

    def met(self, bar: Bar) -> bool | None:
        """Whether the medians keep a bar of this figure; None where they are not known."""
        mine = self.summary(bar.contender)
        if bar.times is None:
            return None if mine is None else mine.median <= bar.limit
        other = self.summary(bar.times)
        return None if mine is None or other is None else mine.median <= bar.limit * other.median
