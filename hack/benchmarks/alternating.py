"""Rounds in which the contenders take turns, so that a change in the machine's speed affects all of them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from attrs import field, frozen

from hack.benchmarks.contenders import Contender, Failure, Outcome, Reading
from hack.benchmarks.figures import Bar, Figure

__all__ = ["Measure", "Results", "alternate"]


@frozen
class Measure:
    """How a figure is computed from readings; `value` returns None for a contender that cannot measure it."""

    name: str
    unit: str
    value: Callable[[Reading], float | None]
    bars: tuple[Bar, ...] = ()


@frozen
class Results:
    """The readings of each contender by round, and the first failure of each that failed."""

    readings: Mapping[str, Sequence[Reading]] = field(factory=dict)
    failures: Mapping[str, str] = field(factory=dict)

    def figure(self, measure: Measure) -> Figure:
        samples = {
            name: tuple(value for reading in readings if (value := measure.value(reading)) is not None)
            for name, readings in self.readings.items()
        }
        return Figure(measure.name, measure.unit, samples, self.failures, measure.bars)


async def alternate(
    contenders: Sequence[Contender],
    rounds: int,
    run: Callable[[Contender], Awaitable[Outcome]],
    report: Callable[[str], None],
    *,
    warm_ups: int = 0,
) -> Results:
    """Run every contender once per round, each round starting with a different one.

    A contender that fails is not run again; the others continue. The first `warm_ups` rounds are not counted.
    """
    readings: dict[str, list[Reading]] = {contender.name: [] for contender in contenders}
    failures: dict[str, str] = {}
    for number in range(-warm_ups, rounds):
        first = number % max(1, len(contenders))
        for contender in [*contenders[first:], *contenders[:first]]:
            if contender.name in failures:
                continue
            report(f"{contender.name}: {'warm-up' if number < 0 else f'round {number + 1} of {rounds}'}")
            outcome = await run(contender)
            if isinstance(outcome, Failure):
                failures[contender.name] = outcome.reason
                report(f"{contender.name}: failed: {outcome.reason}")
            elif number >= 0:
                readings[contender.name].append(outcome)
    return Results(readings, failures)
