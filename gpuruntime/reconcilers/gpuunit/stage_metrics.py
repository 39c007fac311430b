"""The stage metric: seconds from the creation of a unit until each stage of its first start."""

from collections.abc import Iterable
from typing import Final, Literal, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.aio import LRU
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitStatus, UnitStages
from gpuruntime.api.namespaces import Role
from gpuruntime.control.metrics import Histogram
from gpuruntime.meta import ObjectKey, parse_timestamp

__all__ = ["STAGE_BUCKETS", "StageCollector", "StageTimes"]

Stage = Literal["scheduled", "started", "ready"]
# Kubernetes reports these times in whole seconds.
STAGE_BUCKETS: Final = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)
_STARTING_AT_A_TIME: Final = 20_000
_NONE: Final = UnitStages()


class StageTimes:
    """Durations of the first starts of units, as one controller observes them.

    Guarantees:
        A stage of a unit is counted once, when this process first writes a status that has it: no restart of the
        process,
        no change of the leader and no later pod counts it again.

        Only units whose first status this process writes are counted.

    Caveats:
        A start in progress when the leader changed is not counted.
    """

    __slots__ = ("_starting", "durations")

    def __init__(self) -> None:
        self.durations: dict[tuple[Stage, Role], Histogram] = {
            (stage, role): Histogram(STAGE_BUCKETS) for stage in get_args(Stage) for role in get_args(Role)
        }
        # By key, with the UID, and the stages to come.
        self._starting: LRU[ObjectKey, tuple[str, tuple[Stage, ...]]] = LRU(_STARTING_AT_A_TIME)

    def status_written(self, unit: GPUUnit, status: GPUUnitStatus, role: Role) -> None:
        """Count the stages that a written status has for the first time; `unit` is as it was before the write."""
        stages = status.stages or _NONE
        left = tuple(stage for stage in self._coming(unit) if not self._observed(unit, stage, stages, role))
        if left:
            self._starting.put(unit.key, (unit.metadata.uid, left))
        else:
            self._starting.discard(unit.key)

    def forget(self, key: ObjectKey) -> None:
        """Forget a unit that is gone."""
        self._starting.discard(key)

    def _coming(self, unit: GPUUnit) -> tuple[Stage, ...]:
        """The stages that were not in a status yet. A unit without conditions is new."""
        if not unit.status.conditions:
            stages: tuple[Stage, ...] = get_args(Stage)
            return stages
        uid, coming = self._starting.get(unit.key) or ("", ())
        if uid != unit.metadata.uid:
            return ()
        before = unit.status.stages or _NONE
        # A stage that is in the status and was not counted was written by another leader.
        return tuple(stage for stage in coming if getattr(before, stage) is None)

    def _observed(self, unit: GPUUnit, stage: Stage, stages: UnitStages, role: Role) -> bool:
        reached: str | None = getattr(stages, stage)
        if reached is None:
            return False
        taken = parse_timestamp(reached) - parse_timestamp(unit.metadata.creation_timestamp or reached)
        # The two times are from clocks of different machines.
        self.durations[stage, role].observe(max(0.0, taken.total_seconds()))
        return True


class StageCollector(Collector):
    """Exports stage durations to a registry."""

    def __init__(self, registry: CollectorRegistry, times: StageTimes) -> None:
        self._times = times
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(
            "gpuruntime_unit_stage_seconds",
            "Seconds from the creation of a unit until a pod of it first was scheduled, started and ready.",
            labels=("stage", "role"),
        )
        for labels, durations in self._times.durations.items():
            family.add_metric(labels, durations.cumulative(), durations.total)
        return [family]
