"""The verdict on a unit: its status, computed from its children. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from attrs import evolve, field, frozen

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitStatus, UnitStages
from gpuruntime.api.names import CLAIM_ID
from gpuruntime.api.reasons import (
    FAILED,
    PROGRESSING,
    READY_CONDITION,
    SERVERLESS_FAILED,
    SERVERLESS_PENDING,
    SERVERLESS_READY,
    STOCK_CLAIMED,
    STOCK_NOT_READY,
    STOCK_READY,
    STORAGE_IN_USE,
    STORAGE_NOT_READY,
    UNIT_PROGRESSING,
    UNIT_READY,
    UNSCHEDULABLE,
    phase_of,
)
from gpuruntime.api.serverless import SERVERLESS_CONDITION, UnitServerlessStatus
from gpuruntime.desired.units.worker import function_of, serverless_of
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.meta import Condition, find_condition, format_seconds, parse_timestamp, set_condition
from gpuruntime.reconcilers.gpuunit.rollout import Rollout, rollout_of
from gpuruntime.reconcilers.pod_summary import PodSummary
from gpuruntime.service.reads.informers import NodeSummary

__all__ = ["Findings", "SyncFailure", "Verdict", "can_wait", "judge", "transition"]

_READY: Final = "GPU unit runtime is ready."
_STOCK: Final = "GPU unit stock is ready."
_WAITING: Final = frozenset({UNSCHEDULABLE, STORAGE_NOT_READY, STORAGE_IN_USE})
_UNDER_WAY: Final = frozenset({UNIT_PROGRESSING, STOCK_NOT_READY})
_TOGETHER_SECONDS: Final = 3.0


@frozen
class SyncFailure:
    """Why the children of a unit are not in sync with its spec.

    Without a reason it is transient: the unit is progressing, and `message` says what it waits for.
    """

    message: str
    reason: str = ""


@frozen
class Findings:
    """The children of a unit as a run left them.

    `deployment` and the name and URL of the Service are None where there is none of the unit's own. `nodes` has the
    nodes of `pods`, by name; `answers` the last answers of their failing readiness probes, by pod.
    """

    deployment: Deployment | None
    pods: tuple[PodSummary, ...]
    nodes: Mapping[str, NodeSummary]
    answers: Mapping[str, str] = field(factory=dict)
    service_name: str | None = None
    access_url: str | None = None
    failure: SyncFailure | None = None


@frozen
class Verdict:
    """The desired status of a unit. In `recheck_seconds` it may be another one without any change of the children."""

    status: GPUUnitStatus
    recheck_seconds: float | None = None


def judge(unit: GPUUnit, findings: Findings, *, is_stock: bool, now: datetime) -> Verdict:
    """The verdict on a unit.

    Guarantees:
        - Ready is true only if the children are in sync with this generation, the Deployment has rolled out, and the
          pod stays up, see `uptime`.
        - From one end of a container to the next the status is the same: a crash loop costs one write a round.
        - `observedGeneration` is the generation of the last spec that the children were synced with; that of the
          condition is the generation that it describes.
        - If nothing changed, the result equals the present status, times included.
    """
    deployment, generation = findings.deployment, unit.metadata.generation
    rollout = (
        Rollout()
        if deployment is None
        else rollout_of(deployment, findings.pods, findings.nodes, findings.answers, now)
    )
    condition = evolve(
        _blocked(findings.failure, is_stock=is_stock)
        if findings.failure is not None
        else _readiness(unit, rollout, is_stock=is_stock),
        observed_generation=generation,
    )
    before = unit.status
    serverless = None if is_stock else _serverless(unit, condition)
    conditions = set_condition(before.conditions, condition, now)
    after = evolve(
        before,
        phase=phase_of(condition.reason),
        # In a crash loop the pod is ready for moments, and this would change several times a round.
        ready_replicas=0 if deployment is None or rollout.is_down else deployment.status.ready_replicas,
        observed_generation=before.observed_generation if findings.failure is not None else generation,
        service_name=findings.service_name,
        access_url=findings.access_url,
        stages=_stages(rollout.pod, is_down=rollout.is_down),
        serverless=None if serverless is None else _serverless_status(unit, serverless),
        conditions=_with_serverless(conditions, serverless, now),
    )
    status = before if after == before else evolve(after, last_sync_time=format_seconds(now))
    return Verdict(status, None if findings.failure is not None else rollout.recheck_seconds)


def transition(before: GPUUnitStatus, after: GPUUnitStatus) -> Condition | None:
    """The new Ready condition if it is a transition: another status or another reason than before.

    That a new unit is progressing is none, unless it waits for room or for a storage.
    """
    old, new = (find_condition(status.conditions, READY_CONDITION) for status in (before, after))
    if new is None or (old is None and phase_of(new.reason) == PROGRESSING and new.reason not in _WAITING):
        return None
    return None if old is not None and (old.status, old.reason) == (new.status, new.reason) else new


def can_wait(before: GPUUnitStatus, after: GPUUnitStatus, now: datetime) -> float:
    """Seconds for which the write of a status may be delayed, 0 if it is to be written now.

    A start is a sequence of steps, most of them a moment apart, and each changes the status. Steps within seconds of
    the last write are written together. Whether the unit is ready, why not, and its URL are written at once.
    """
    reason = _reason(after)
    if reason not in _UNDER_WAY or _without_steps(before) != _without_steps(after) or before.last_sync_time is None:
        return 0.0
    age = (now - parse_timestamp(before.last_sync_time)).total_seconds()
    # A time in the future is from a clock that is ahead of ours, and is ignored.
    return max(_TOGETHER_SECONDS - age, 0.0) if age >= 0 else 0.0


def _reason(status: GPUUnitStatus) -> str:
    found = find_condition(status.conditions, READY_CONDITION)
    return "" if found is None else found.reason


def _without_steps(status: GPUUnitStatus) -> GPUUnitStatus:
    conditions = tuple(evolve(condition, message="") for condition in status.conditions)
    return evolve(status, stages=None, ready_replicas=None, last_sync_time=None, conditions=conditions)


def _blocked(failure: SyncFailure, *, is_stock: bool) -> Condition:
    if not failure.reason:
        return _under_way(failure.message, is_stock=is_stock)
    return Condition(READY_CONDITION, "False", failure.reason, failure.message)


def _readiness(unit: GPUUnit, rollout: Rollout, *, is_stock: bool) -> Condition:
    if rollout.is_complete:
        if not is_stock:
            return Condition(READY_CONDITION, "True", UNIT_READY, _READY)
        claim = unit.metadata.annotations.get(CLAIM_ID)
        if claim is None:
            return Condition(READY_CONDITION, "True", STOCK_READY, _STOCK)
        return Condition(READY_CONDITION, "False", STOCK_CLAIMED, f"Claimed by {claim}, about to be handed over.")
    if rollout.failure is not None:
        return Condition(READY_CONDITION, "False", rollout.failure.reason, rollout.failure.message)
    return _under_way(rollout.progress, is_stock=is_stock)


def _serverless(unit: GPUUnit, ready: Condition) -> Condition | None:
    """The condition ServerlessReady of a worker: its sidecar asks the program, so it is ready when the unit is."""
    if serverless_of(unit.spec) is None:
        return None
    reason = SERVERLESS_FAILED if phase_of(ready.reason) == FAILED else SERVERLESS_PENDING
    return evolve(ready, type=SERVERLESS_CONDITION, reason=SERVERLESS_READY if ready.status == "True" else reason)


def _serverless_status(unit: GPUUnit, condition: Condition) -> UnitServerlessStatus | None:
    serverless = serverless_of(unit.spec)
    if serverless is None:
        return None
    framework = serverless.framework
    return UnitServerlessStatus(
        phase_of(condition.reason),
        function_of(unit) or None,
        framework.socket_path,
        framework.invoke_path,
        framework.health_path,
    )


def _with_serverless(
    conditions: tuple[Condition, ...], serverless: Condition | None, now: datetime
) -> tuple[Condition, ...]:
    if serverless is not None:
        return set_condition(conditions, serverless, now)
    return tuple(condition for condition in conditions if condition.type != SERVERLESS_CONDITION)


def _under_way(message: str, *, is_stock: bool) -> Condition:
    return Condition(READY_CONDITION, "False", STOCK_NOT_READY if is_stock else UNIT_PROGRESSING, message)


def _stages(pod: PodSummary | None, *, is_down: bool) -> UnitStages | None:
    if pod is None:
        return None
    stages = UnitStages(
        pod.scheduled_at or None,
        None if is_down else pod.started_at or None,
        None if is_down else pod.ready_at or None,
    )
    return None if stages == UnitStages() else stages
