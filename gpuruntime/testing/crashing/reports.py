"""Reports: per plan the request where it took effect, the difference in state, and the command that reruns it."""

import shlex
from textwrap import indent

from attrs import frozen

from gpuruntime.testing.crashing.plan_selection import Trace
from gpuruntime.testing.crashing.plans import Plan

__all__ = ["PLANS_VARIABLE", "Report", "Verdict"]

PLANS_VARIABLE = "GPURUNTIME_CRASH_PLANS"


@frozen
class Verdict:
    """The result of one plan.

    Attributes:
        triggered: whether the planned fault took effect; if not, the run proves nothing.
        point: the request at which it took effect.
        same: whether the final state equals that of the reference run.
        difference: how the final states differ, or that the run did not settle.
        violations: violations of the scenario's invariant, however short.
        repeated: the writes of a second pass.
        writes: how many writes of the operator the server accepted.
        exits: exits of the operator by itself. They are no failure: it was restarted.
    """

    plan: Plan
    triggered: bool
    point: str
    same: bool
    difference: str
    violations: tuple[str, ...]
    repeated: tuple[str, ...]
    writes: int
    exits: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return self.same and not self.violations and not self.repeated

    def __str__(self) -> str:
        parts = [f"{self.plan}" + (f" (at {self.point})" if self.point else "")]
        if not self.same:
            parts.append(indent(self.difference, "  "))
        parts += [f"  invariant violated: {violation}" for violation in self.violations]
        parts += [f"  unnecessary write in the second pass: {write}" for write in self.repeated]
        parts += [f"  the operator exited by itself: {exit_}" for exit_ in self.exits]
        return "\n".join(parts)


@frozen
class Report:
    """All verdicts on a scenario. `test` is the node ID of the calling pytest test, "" outside pytest."""

    scenario: str
    trace: Trace
    verdicts: tuple[Verdict, ...]
    test: str = ""

    @property
    def failures(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if not verdict.holds)

    @property
    def not_triggered(self) -> tuple[Verdict, ...]:
        """Verdicts that hold but prove nothing: the operator never made the request that the plan was to disturb."""
        return tuple(verdict for verdict in self.verdicts if verdict.holds and not verdict.triggered)

    def check(self) -> None:
        """Raise AssertionError with the whole report if a verdict does not hold."""
        if self.failures:
            raise AssertionError(str(self))

    def rerun_command(self, plan: Plan) -> str:
        """The command that runs this one plan."""
        test = f"python -m pytest {shlex.quote(self.test)}" if self.test else "...  # the program that called explore"
        return f"{PLANS_VARIABLE}={shlex.quote(str(plan))} {test}"

    def __str__(self) -> str:
        held = len(self.verdicts) - len(self.failures) - len(self.not_triggered)
        counts = f"{held} hold, {len(self.failures)} fail, {len(self.not_triggered)} not triggered"
        lines = [
            f"{self.scenario}: {len(self.verdicts)} plans, {counts}",
            "writes of the reference run:",
            *(f"  {number}. {write}" for number, write in enumerate(self.trace.writes, 1)),
        ]
        for verdict in self.failures:
            lines += ["", f"FAILED {verdict}", f"  rerun: {self.rerun_command(verdict.plan)}"]
        if self.not_triggered:
            lines += ["", "not triggered: " + ", ".join(str(verdict.plan) for verdict in self.not_triggered)]
        return "\n".join(lines)
