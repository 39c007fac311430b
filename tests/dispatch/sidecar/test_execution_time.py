"""When a run stops, by a virtual clock: the framework answers when a test says so."""

import asyncio
from typing import Any, cast

import pytest

from gpuruntime.dispatch.protocol import Run
from gpuruntime.dispatch.sidecar.contracts import FrameworkReply
from gpuruntime.dispatch.sidecar.durations import Durations
from gpuruntime.dispatch.sidecar.execution import Execution
from gpuruntime.dispatch.sidecar.framework_client import FrameworkClient
from gpuruntime.dispatch.sidecar.framework_health import FrameworkHealth
from gpuruntime.dispatch.sidecar.held_runs import HeldRun, HeldRuns
from gpuruntime.dispatch.sidecar.outbox import Outbox
from gpuruntime.dispatch.sidecar.raw_contract import RawContract
from gpuruntime.testing.virtual_time import run_virtual


class SlowFramework:
    """Answers after some seconds; it takes as long to end a run that is cancelled."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.cancelled_at: float | None = None

    async def invoke(self, *_: Any) -> FrameworkReply:
        await asyncio.sleep(self.seconds)
        return FrameworkReply(200, (), b"done")

    async def cancel(self, _id: str) -> bool:
        self.cancelled_at = asyncio.get_running_loop().time()
        return True


class Executed:
    """A run that arrives at 0, and is executed."""

    def __init__(self, framework: SlowFramework, **fields: Any) -> None:
        client = cast("FrameworkClient", framework)
        self.runs = HeldRuns(Outbox())
        self.health = FrameworkHealth(client, Durations())
        self.execution = Execution(
            RawContract(), client, self.health, self.runs, asyncio.Semaphore(1), Durations(), can_cancel=True
        )
        self.held = HeldRun(Run(lease="lease", id="inv-1", attempt=1, **({"timeout_millis": 0} | fields)), b"", 0.0)
        self.runs.add(self.held)
        self.task = asyncio.create_task(self.execution.execute(self.held))

    @property
    def state(self) -> str:
        return self.held.result[0].state if self.held.result else ""


def test_a_lease_that_is_confirmed_lasts_and_one_that_is_not_ends_its_run_after_15_seconds() -> None:
    async def story() -> tuple[float | None, str, bool]:
        framework = SlowFramework(1000)
        executed = Executed(framework, abort_on_lost_lease=True)
        for _ in range(20):
            await asyncio.sleep(5)
            executed.runs.confirm(("lease",), asyncio.get_running_loop().time())
        await asyncio.sleep(20)
        executed.task.cancel()
        return framework.cancelled_at, executed.state, executed.held.is_forgotten

    cancelled_at, state, is_forgotten = run_virtual(story())

    assert cancelled_at == pytest.approx(115)
    assert (state, is_forgotten) == ("", True)


def test_a_run_that_may_overlap_needs_no_confirmation() -> None:
    async def story() -> str:
        executed = Executed(SlowFramework(1000))
        await executed.task
        return executed.state

    assert run_virtual(story()) == "succeeded"


@pytest.mark.parametrize(
    ("seconds", "state", "stuck_at_21", "stuck_at_end"),
    [(9.9, "succeeded", False, False), (19.9, "expired", False, False), (60.0, "expired", True, False)],
)
def test_after_its_deadline_a_run_has_10_seconds_to_end_before_the_framework_is_stuck(
    seconds: float, state: str, stuck_at_21: bool, stuck_at_end: bool
) -> None:
    async def story() -> tuple[str, bool, bool, float]:
        executed = Executed(SlowFramework(seconds), timeout_millis=10_000)
        await asyncio.sleep(10.1)
        state = executed.state
        await asyncio.sleep(10.9)
        stuck = bool(executed.health.stuck)
        await executed.task
        return state, stuck, bool(executed.health.stuck), asyncio.get_running_loop().time()

    *found, ended_at = run_virtual(story())

    assert found == [state, stuck_at_21, stuck_at_end]
    assert ended_at == pytest.approx(max(21, seconds))
