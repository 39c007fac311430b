"""Exploration: a reference run of a scenario without faults, then one run per selected plan."""

import asyncio
import logging
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.crashing.environment import ALLOW_ALL, Rules, run_environment
from gpuruntime.testing.crashing.normalisation import differences
from gpuruntime.testing.crashing.operators import Operator
from gpuruntime.testing.crashing.plan_selection import PlanSelector, only, sample
from gpuruntime.testing.crashing.plans import Plan, Undisturbed
from gpuruntime.testing.crashing.reports import PLANS_VARIABLE, Report, Verdict
from gpuruntime.testing.crashing.run import NO_EXPECTATION, Outcome, run_plan
from gpuruntime.testing.crashing.scenario import Scenario

__all__ = ["UnusableScenarioError", "explore"]

_LOG = logging.getLogger(__name__)
_SAMPLE = sample(12)


class UnusableScenarioError(Exception):
    """The reference run failed, so there is no state to compare other runs with."""


async def explore(
    scenario: Scenario,
    operator: Operator,
    access: ClusterAccess,
    directory: Path,
    *,
    plans: PlanSelector = _SAMPLE,
    rules: Rules = ALLOW_ALL,
    max_parallel: int = 1,
    environ: Mapping[str, str] = os.environ,
) -> Report:
    """Run the scenario without faults, then once per plan, each time in new namespaces, and compare the final states.

    Args:
        scenario: what the user does, and when the operator has finished.
        operator: the operator under test, see `Operator` and `program`.
        access: the cluster; the user acts as its administrator.
        directory: receives kubeconfigs and the logs of programs.
        plans: `everything`, `sample(n)`, or `only(names)`.
        rules: the RBAC rules of the operator, granted in all namespaces.
        max_parallel: how many runs execute at the same time.
        environ: GPURUNTIME_CRASH_PLANS in it, a comma-separated list of plan names, overrides `plans`.

    Raises:
        UnusableScenarioError: in the reference run the scenario does not settle, or the operator exits or writes
            nothing.
        ValueError: GPURUNTIME_CRASH_PLANS names a plan that does not exist.
    """
    named = environ.get(PLANS_VARIABLE)
    select = only(*named.split(",")) if named else plans
    slots = asyncio.Semaphore(max_parallel)

    async def run(plan: Plan, expected: Any = NO_EXPECTATION) -> Outcome:
        async with (
            slots,
            run_environment(scenario, access, directory / f"run-{uuid.uuid4().hex[:8]}", rules) as environment,
        ):
            outcome = await run_plan(scenario, operator, plan, environment, expected)
            _LOG.info("crash plan finished", extra={"scenario": scenario.name, "plan": str(plan)})
            return outcome

    reference = await run(Undisturbed())
    _check_usable(scenario, reference)
    selected = select(reference.trace)
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(run(plan, reference.state)) for plan in selected]
    verdicts = tuple(
        _verdict(scenario, plan, reference, done.result()) for plan, done in zip(selected, runs, strict=True)
    )
    test = environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    return Report(scenario.name, reference.trace, verdicts, test)


def _check_usable(scenario: Scenario, reference: Outcome) -> None:
    if reference.exits:
        raise UnusableScenarioError(f"{scenario.name}: the operator exited in the reference run: {reference.exits[0]}")
    if not reference.settled:
        raise UnusableScenarioError(
            f"{scenario.name}: the reference run did not become settled and idle within {scenario.timeout:g} s;"
            f" its state:\n{differences([], reference.state)}"
        )
    if not reference.trace.writes:
        raise UnusableScenarioError(
            f"{scenario.name}: the operator wrote nothing through the proxy in the reference run: "
            "expected it to use the kubeconfig of its launch"
        )


def _verdict(scenario: Scenario, plan: Plan, reference: Outcome, outcome: Outcome) -> Verdict:
    difference = differences(reference.state, outcome.state)
    if not outcome.settled:
        difference = f"not settled and idle within {scenario.timeout:g} s\n{difference}".rstrip()
    # The reference run was undisturbed too.
    earlier = reference.violations if isinstance(plan, Undisturbed) else ()
    return Verdict(
        plan=plan,
        triggered=outcome.triggered,
        point=outcome.point,
        same=not difference,
        difference=difference,
        violations=tuple(dict.fromkeys((*earlier, *outcome.violations))),
        repeated=tuple(map(str, outcome.repeated)),
        writes=len(outcome.trace.writes),
        exits=outcome.exits,
    )
