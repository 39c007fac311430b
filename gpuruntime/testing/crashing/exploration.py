"""Running a scenario once in peace and then under every plan that was chosen."""

import asyncio
import logging
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.crashing.environment import EVERYTHING, Rules, staging
from gpuruntime.testing.crashing.normalisation import differences
from gpuruntime.testing.crashing.operators import Operator
from gpuruntime.testing.crashing.plan_selection import Choice, only, sample
from gpuruntime.testing.crashing.plans import Plan, Undisturbed
from gpuruntime.testing.crashing.reports import PLANS_VARIABLE, Report, Verdict
from gpuruntime.testing.crashing.run import NOTHING_EXPECTED, Outcome, perform
from gpuruntime.testing.crashing.scenario import Scenario

__all__ = ["UnusableScenarioError", "explore"]

_LOG = logging.getLogger(__name__)
_SAMPLE = sample(12)


class UnusableScenarioError(Exception):
    """Already the undisturbed run went wrong, so that there is nothing to compare with."""


async def explore(
    scenario: Scenario,
    operator: Operator,
    access: ClusterAccess,
    directory: Path,
    *,
    plans: Choice = _SAMPLE,
    rules: Rules = EVERYTHING,
    at_once: int = 1,
    environ: Mapping[str, str] = os.environ,
) -> Report:
    """Run the scenario undisturbed, then under each plan, each time in new namespaces, and compare the final states.

    Args:
        scenario: what happens.
        operator: what is tested, see `Operator` and `program`.
        access: the cluster; its administrator plays the user.
        directory: where kubeconfigs and the logs of programs are put.
        plans: `everything`, `sample(n)`, or `only(names)`.
        rules: the RBAC rules of the operator, in force in all namespaces.
        at_once: how many runs go on side by side.
        environ: its GPURUNTIME_CRASH_PLANS, names with commas between them, overrules `plans`.

    Raises:
        UnusableScenarioError: the undisturbed run does not settle, or its operator ends or writes nothing.
        ValueError: a plan of the variable does not exist.
    """
    named = environ.get(PLANS_VARIABLE)
    choose = only(*named.split(",")) if named else plans
    slots = asyncio.Semaphore(at_once)

    async def run(plan: Plan, expected: Any = NOTHING_EXPECTED) -> Outcome:
        async with slots, staging(scenario, access, directory / f"run-{uuid.uuid4().hex[:8]}", rules) as setting:
            outcome = await perform(scenario, operator, plan, setting, expected)
            _LOG.info("a plan was tried", extra={"scenario": scenario.name, "plan": str(plan)})
            return outcome

    reference = await run(Undisturbed())
    _check_usable(scenario, reference)
    chosen = choose(reference.trace)
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(run(plan, reference.state)) for plan in chosen]
    verdicts = tuple(
        _verdict(scenario, plan, reference, done.result()) for plan, done in zip(chosen, runs, strict=True)
    )
    test = environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    return Report(scenario.name, reference.trace, verdicts, test)


def _check_usable(scenario: Scenario, reference: Outcome) -> None:
    if reference.ends:
        raise UnusableScenarioError(f"{scenario.name}: undisturbed, the operator ended by itself: {reference.ends[0]}")
    if not reference.settled:
        raise UnusableScenarioError(
            f"{scenario.name}: undisturbed, it was not settled and quiet within {scenario.patience:g} s; its state:\n"
            f"{differences([], reference.state)}"
        )
    if not reference.trace.writes:
        raise UnusableScenarioError(
            f"{scenario.name}: undisturbed, the operator wrote nothing through the proxy: "
            "give it the kubeconfig of its launch"
        )


def _verdict(scenario: Scenario, plan: Plan, reference: Outcome, outcome: Outcome) -> Verdict:
    difference = differences(reference.state, outcome.state)
    if not outcome.settled:
        difference = f"it was not settled and quiet within {scenario.patience:g} s\n{difference}".rstrip()
    return Verdict(
        plan=plan,
        met=outcome.met,
        point=outcome.point,
        same=not difference,
        difference=difference,
        violations=outcome.violations,
        repeated=tuple(map(str, outcome.repeated)),
        writes=len(outcome.trace.writes),
        ends=outcome.ends,
    )
