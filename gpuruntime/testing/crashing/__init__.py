"""Crash points: an operator dies at every write, loses answers, lags behind, and must end where it would have ended.

::

    report = await explore(scenario, operator, kube_cluster, tmp_path, plans=sample(12))
    report.check()

A `Scenario` says what a user does and when the operator has done its part. It is run once in peace; the writes and
calls of that run are where the other runs are disturbed. Each run has namespaces of its own, and a proxy between the
operator and the real API server. See docs/crashes.md for what this proves and what it does not.
"""

from gpuruntime.testing.crashing.exploration import UnusableScenarioError, explore
from gpuruntime.testing.crashing.normalisation import differences, normalise
from gpuruntime.testing.crashing.operators import Launch, Operator, OperatorEndedError, program
from gpuruntime.testing.crashing.plan_selection import Choice, Trace, everything, only, sample
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
from gpuruntime.testing.crashing.world import Event, Moment, Place, World
from gpuruntime.testing.faults.exchanges import Call

__all__ = [
    "Call",
    "Choice",
    "CrashAfterWrite",
    "CrashBeforeWrite",
    "DelayWatch",
    "Event",
    "FailOnce",
    "Failure",
    "Launch",
    "Moment",
    "Operator",
    "OperatorEndedError",
    "Place",
    "Plan",
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
