"""What the scenarios of the operator work with."""

from attrs import frozen

from hack.benchmarks.scenario import Bench

__all__ = ["UnitBench"]


@frozen(kw_only=True)
class UnitBench(Bench):
    """`idle_seconds` is for how long idle units are watched."""

    idle_seconds: float
