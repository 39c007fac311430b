"""The input of the operator's scenarios."""

from attrs import frozen

from hack.benchmarks.scenario import Bench

__all__ = ["UnitBench"]


@frozen(kw_only=True)
class UnitBench(Bench):
    """A bench with the length of the idle period, `idle_seconds`."""

    idle_seconds: float
