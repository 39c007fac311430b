"""What came out, for a person: which plan, at which write, what is different, how to run that one again."""

import shlex
from textwrap import indent

from attrs import frozen

from gpuruntime.testing.crashing.plan_selection import Trace
from gpuruntime.testing.crashing.plans import Plan

__all__ = ["PLANS_VARIABLE", "Report", "Verdict"]

PLANS_VARIABLE = "GPURUNTIME_CRASH_PLANS"


@frozen
class Verdict:
    """What one plan has shown.

    Attributes:
        met: whether what was planned happened; if not, the run proves nothing.
        point: the request at which it happened.
        same: whether the run ended in the state of the undisturbed run.
        difference: what is different in the end, or that the end never came.
        violations: what the scenario says must never be, and was for a moment at least.
        repeated: what a second pass wrote.
        writes: how many writes the server accepted from the operator.
        ends: how the operator ended by itself, which is no failure: it was started again.
    """

    plan: Plan
    met: bool
    point: str
    same: bool
    difference: str
    violations: tuple[str, ...]
    repeated: tuple[str, ...]
    writes: int
    ends: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return self.same and not self.violations and not self.repeated

    def __str__(self) -> str:
        parts = [f"{self.plan}" + (f" (at {self.point})" if self.point else "")]
        if not self.same:
            parts.append(indent(self.difference, "  "))
        parts += [f"  must never be, and was: {violation}" for violation in self.violations]
        parts += [f"  written again without need: {write}" for write in self.repeated]
        parts += [f"  the operator ended by itself: {end}" for end in self.ends]
        return "\n".join(parts)


@frozen
class Report:
    """All verdicts on a scenario. `test` is the id of the pytest test that asked, empty elsewhere."""

    scenario: str
    trace: Trace
    verdicts: tuple[Verdict, ...]
    test: str = ""

    @property
    def failures(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if not verdict.holds)

    @property
    def unmet(self) -> tuple[Verdict, ...]:
        """Those that hold but prove nothing: this time the operator did not do what was to be disturbed."""
        return tuple(verdict for verdict in self.verdicts if verdict.holds and not verdict.met)

    def check(self) -> None:
        """Raises AssertionError with the whole report if a verdict does not hold."""
        if self.failures:
            raise AssertionError(str(self))

    def again(self, plan: Plan) -> str:
        """The command that runs this one plan."""
        test = f"python -m pytest {shlex.quote(self.test)}" if self.test else "...  # whatever has called explore"
        return f"{PLANS_VARIABLE}={shlex.quote(str(plan))} {test}"

    def __str__(self) -> str:
        held = len(self.verdicts) - len(self.failures) - len(self.unmet)
        counts = f"{held} hold, {len(self.failures)} fail, {len(self.unmet)} did not happen"
        lines = [
            f"{self.scenario}: {len(self.verdicts)} plans, {counts}",
            "the writes of the undisturbed run:",
            *(f"  {number}. {write}" for number, write in enumerate(self.trace.writes, 1)),
        ]
        for verdict in self.failures:
            lines += ["", f"FAILED {verdict}", f"  again: {self.again(verdict.plan)}"]
        if self.unmet:
            lines += ["", "did not happen: " + ", ".join(str(verdict.plan) for verdict in self.unmet)]
        return "\n".join(lines)
