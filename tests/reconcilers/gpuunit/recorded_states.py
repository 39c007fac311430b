"""Recordings of `hack/record_pod_states.py`: what a real kubelet said of a unit, played to the verdict on units."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.meta import Condition, ObjectMeta, decode, find_condition, parse_timestamp
from gpuruntime.reconcilers.gpuunit.probe_failures import latest_answer, summarize_event
from gpuruntime.reconcilers.gpuunit.status import Findings, judge
from gpuruntime.reconcilers.pod_summary import summarize_pod
from gpuruntime.service.reads.informers import NodeSummary

__all__ = ["Moment", "played", "recordings"]

_RECORDED = Path(__file__).parent / "recorded"
_NODES = {"real-1": NodeSummary(is_ready=True)}


@frozen
class Moment:
    """The status after a step of a recording, whether it was written then, and how often containers had ended."""

    at: datetime
    status: GPUUnitStatus
    is_written: bool
    ends: int

    @property
    def ready(self) -> Condition:
        found = find_condition(self.status.conditions, "Ready")
        assert found is not None
        return found


@define
class _World:
    """What was recorded of a unit so far."""

    deployment: Deployment | None = None
    pods: dict[str, dict[str, Any]] = field(factory=dict)
    events: dict[str, dict[str, Any]] = field(factory=dict)

    def take(self, step: dict[str, Any]) -> None:
        if step.get("deployment"):
            self.deployment = decode(Deployment, step["deployment"])
        for what, known in (("pod", self.pods), ("event", self.events)):
            if what in step:
                name = step["name"] if step[what] is None else step[what]["metadata"]["name"]
                known.pop(name, None)
                if step[what] is not None:
                    known[name] = step[what]

    def findings(self) -> Findings:
        pods = tuple(summarize_pod(raw) for raw in self.pods.values())
        failures = [summarize_event(raw) for raw in self.events.values()]
        answers = {
            pod.name: latest_answer([one for one in failures if one.pod == pod.name], since=pod.started_at)
            for pod in pods
            if pod.started_at and not pod.is_ready
        }
        return Findings(self.deployment, pods, _NODES, answers)

    @property
    def ends(self) -> int:
        statuses = [one for raw in self.pods.values() for one in raw["status"]["containerStatuses"]]
        return sum(one["restartCount"] + ("terminated" in one["state"]) for one in statuses)


def recordings() -> list[str]:
    """The names of all recordings."""
    return sorted(path.stem for path in _RECORDED.glob("*.jsonl"))


def played(name: str) -> Iterator[Moment]:
    """The statuses of an active unit while its recording is played, with the looks in between that it asks for."""
    unit = GPUUnit(ObjectMeta(name=name, namespace="recording", generation=1), GPUUnitSpec("recorded"))
    steps = [json.loads(line) for line in (_RECORDED / f"{name}.jsonl").read_text().splitlines()]
    world, ends = _World(), 0
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        world.take(step)
        ends = max(ends, world.ends)
        now = parse_timestamp(step["at"])
        until = now + timedelta(minutes=10) if following is None else parse_timestamp(following["at"])
        while now < until:
            verdict = judge(unit, world.findings(), is_stock=False, now=now)
            yield Moment(now, verdict.status, verdict.status is not unit.status, ends)
            unit = evolve(unit, status=verdict.status)
            now = until if verdict.recheck_seconds is None else now + timedelta(seconds=verdict.recheck_seconds)
