"""Crash testing: an operator is killed at every write, loses responses and reads stale caches, and must still converge.

::

    report = await explore(scenario, operator, kube_cluster, tmp_path, plans=sample(12))
    report.check()

A `Scenario` describes what a user does and when the operator has finished. A reference run without faults records the
operator's writes and calls; every further run injects one fault at one of them. Each run has its own namespaces, and a
proxy between the operator and the real API server. See docs/crashes.md for what this proves and what it does not.
"""

from gpuruntime.testing.crashing.exploration import UnusableScenarioError, explore
from gpuruntime.testing.crashing.normalisation import differences, normalise
from gpuruntime.testing.crashing.operators import Launch, Operator, OperatorEndedError, program
from gpuruntime.testing.crashing.plan_selection import PlanSelector, Trace, everything, only, sample
from gpuruntime.testing.crashing.plans import (
    CrashAfterWrite,
    CrashBeforeWrite,
    DelayWatch,
    FailOnce,
    Failure,
    Plan,
    SecondPass,
    StaleCache,
    Undisturbed,
    parse_plan,
)
from gpuruntime.testing.crashing.reports import Report, Verdict
from gpuruntime.testing.crashing.scenario import Scenario, Stage
from gpuruntime.testing.crashing.world import Event, Moment, ObjectRef, World
from gpuruntime.testing.faults.exchanges import Call

__all__ = [
    "Call",
    "CrashAfterWrite",
    "CrashBeforeWrite",
    "DelayWatch",
    "Event",
    "FailOnce",
    "Failure",
    "Launch",
    "Moment",
    "ObjectRef",
    "Operator",
    "OperatorEndedError",
    "Plan",
    "PlanSelector",
    "Report",
    "Scenario",
    "SecondPass",
    "Stage",
    "StaleCache",
    "Trace",
    "Undisturbed",
    "UnusableScenarioError",
    "Verdict",
    "World",
    "differences",
    "everything",
    "explore",
    "normalise",
    "only",
    "parse_plan",
    "program",
    "sample",
]
