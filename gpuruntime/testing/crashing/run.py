"""One run of a scenario under one plan."""

import asyncio
import re
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

from attrs import frozen

from gpuruntime.testing.crashing.environment import RunEnvironment
from gpuruntime.testing.crashing.idle_detection import IdleDetector
from gpuruntime.testing.crashing.normalisation import normalise
from gpuruntime.testing.crashing.operator_supervisor import OperatorSupervisor
from gpuruntime.testing.crashing.operators import Operator
from gpuruntime.testing.crashing.plan_selection import Trace
from gpuruntime.testing.crashing.plans import (
    EVERY_RESOURCE,
    CrashAfterWrite,
    CrashBeforeWrite,
    DelayWatch,
    FailOnce,
    Failure,
    Plan,
    SecondPass,
    StaleCache,
)
from gpuruntime.testing.crashing.scenario import Scenario
from gpuruntime.testing.crashing.world import moments
from gpuruntime.testing.faults.definitions import (
    DelayEvents,
    DieAfterWrites,
    DieBeforeWrite,
    DropRequests,
    FailRequests,
    Fault,
    HoldEvents,
    LoseResponses,
)
from gpuruntime.testing.faults.exchanges import Exchange
from gpuruntime.testing.faults.proxy import FaultProxy
from gpuruntime.testing.faults.registry import ActiveFault

__all__ = ["NO_EXPECTATION", "Outcome", "run_plan"]

NO_EXPECTATION = object()
_STARTUP_IDLE_SECONDS = 0.3
_AFTER_WRITE_SECONDS = 0.1
_FAULTS: dict[Failure, Fault] = {
    "500": FailRequests(500, times=1),
    "429": FailRequests(429, retry_after=1, times=1),
    "409": FailRequests(409, times=1),
    "dropped": DropRequests(times=1),
    "unanswered": LoseResponses(times=1),
}


@frozen
class Outcome:
    """The result of a run.

    `triggered` is whether the planned fault took effect, `point` the request at which it did. `repeated` are the writes
    of a second pass, `exits` the exits of the operator by itself, `violations` those of the scenario's invariant.
    """

    state: Any
    settled: bool
    triggered: bool
    point: str
    trace: Trace
    repeated: tuple[Exchange, ...]
    exits: tuple[str, ...]
    violations: tuple[str, ...]


async def run_plan(
    scenario: Scenario, operator: Operator, plan: Plan, environment: RunEnvironment, expected: Any = NO_EXPECTATION
) -> Outcome:
    """Run until the scenario is settled and idle with the `expected` state, or until its timeout."""
    async with asyncio.TaskGroup() as group:
        supervisor = OperatorSupervisor(operator, environment.launch, environment.proxy, group)
        run = _Run(scenario, plan, environment, supervisor, group)
        try:
            return await run.execute(expected)
        finally:
            await run.end()


class _Run:
    def __init__(
        self,
        scenario: Scenario,
        plan: Plan,
        environment: RunEnvironment,
        supervisor: OperatorSupervisor,
        group: asyncio.TaskGroup,
    ) -> None:
        self._scenario = scenario
        self._plan = plan
        self._stage = environment.stage
        self._proxy = environment.proxy
        self._recorder = environment.stage.recorder
        self._supervisor = supervisor
        self._group = group
        self._idle = IdleDetector(environment.proxy, self._recorder, supervisor, scenario.ignored_resources)
        self._background: list[asyncio.Task[None]] = []
        self._settled = False

    async def execute(self, expected: Any) -> Outcome:
        await self._scenario.prepare(self._stage)
        fault = _inject(self._plan, self._proxy, self._scenario.ignored_resources)
        if fault is not None and isinstance(self._plan, CrashAfterWrite | CrashBeforeWrite):
            self._start_background(self._crash(fault))
        self._supervisor.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._scenario.timeout):
                await self._idle.wait_idle(_STARTUP_IDLE_SECONDS)
                act = self._start_background(self._act())
                if isinstance(self._plan, StaleCache):
                    fault = await self._hold(self._plan.resource, act)
                await act
                await self._await_state(expected)
        trace = Trace(tuple(exchange.call for exchange in self._exchanges()), self._writes())
        repeated = await self._second_pass() if self._settled and isinstance(self._plan, SecondPass) else ()
        await self.end()
        return Outcome(
            state=await self._observe(),
            settled=self._settled,
            triggered=fault is None or fault.count > 0,
            point=self._point(),
            trace=trace,
            repeated=repeated,
            exits=tuple(self._supervisor.exits),
            violations=tuple(dict.fromkeys(self._violations())),
        )

    async def end(self) -> None:
        for task in self._background:
            task.cancel()
        await self._supervisor.kill()

    def _start_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine as a task that is cancelled at the end of the run."""
        self._background.append(self._group.create_task(work))
        return self._background[-1]

    async def _act(self) -> None:
        await self._scenario.act(self._stage)

    async def _crash(self, death: ActiveFault) -> None:
        await death.triggered()
        if isinstance(self._plan, CrashAfterWrite) and not self._plan.unanswered:
            # The operator has its response: let it react, until its next request or for a moment.
            seen = len(self._proxy.log.exchanges)
            with suppress(TimeoutError):
                async with asyncio.timeout(_AFTER_WRITE_SECONDS):
                    await self._proxy.changes.until(lambda: len(self._proxy.log.exchanges) > seen)
        await self._supervisor.kill()
        death.lift()
        self._supervisor.start()

    async def _hold(self, resource: str, act: asyncio.Task[None]) -> ActiveFault:
        """Hold the events back until the operator has done all that it can do without them.

        The act need not have ended by then: it may itself wait for an effect of these events.
        """
        with self._proxy.inject(HoldEvents(), watch=True, resource=_resource_filter(resource)) as hold:
            await asyncio.wait([self._start_background(hold.triggered()), act], return_when=asyncio.FIRST_COMPLETED)
            await self._idle.wait_idle(self._scenario.idle_seconds)
        self._idle.reset()
        return hold

    async def _await_state(self, expected: Any) -> None:
        delay = self._plan.seconds if isinstance(self._plan, DelayWatch) else 0.0
        while True:
            since = await self._idle.wait_idle(self._scenario.idle_seconds + delay)
            if self._scenario.settled(self._recorder.world):
                self._settled = True
                if expected is NO_EXPECTATION or await self._observe() == expected:
                    return
            await self._idle.wait_active(since)

    async def _second_pass(self) -> tuple[Exchange, ...]:
        await self._supervisor.kill()
        before = len(self._writes())
        self._supervisor.start()
        try:
            async with asyncio.timeout(self._scenario.timeout):
                await self._idle.wait_idle(self._scenario.idle_seconds)
        except TimeoutError:
            self._settled = False
        return self._writes()[before:]

    async def _observe(self) -> Any:
        world = await self._recorder.catch_up()
        if self._scenario.observe is not None:
            return await self._scenario.observe(self._stage)
        return normalise(
            world.objects.values(), world.namespaces, self._scenario.ignored_fields, self._scenario.replacements
        )

    def _violations(self) -> Iterator[str]:
        if self._scenario.invariant is not None:
            for moment in moments(self._recorder.start, self._recorder.events):
                violation = self._scenario.invariant(moment)
                if violation is not None:
                    yield violation

    def _exchanges(self) -> tuple[Exchange, ...]:
        return tuple(
            exchange
            for exchange in self._proxy.log.exchanges
            if exchange.call.resource not in self._scenario.ignored_resources
        )

    def _writes(self) -> tuple[Exchange, ...]:
        ignored = self._scenario.ignored_resources
        return tuple(write for write in self._proxy.log.writes if write.call.resource not in ignored)

    def _point(self) -> str:
        """The request at which the fault of the plan took effect."""
        match self._plan:
            case CrashAfterWrite(number):
                found = self._writes()[number - 1 : number]
            case CrashBeforeWrite():
                found = tuple(exchange for exchange in self._exchanges() if exchange.write and exchange.status is None)
            case FailOnce(call):
                found = tuple(exchange for exchange in self._exchanges() if exchange.call == call)
            case _:
                found = ()
        return str(found[0]) if found else ""


def _inject(plan: Plan, proxy: FaultProxy, ignored_resources: tuple[str, ...]) -> ActiveFault | None:
    """Inject the fault of a plan that is active from the beginning of the run."""
    counted = f"(?!.*/(?:{'|'.join(map(re.escape, ignored_resources))})(?:/|$)).*" if ignored_resources else None
    match plan:
        case CrashAfterWrite(number, unanswered):
            return proxy.inject(DieAfterWrites(number, lose_response=unanswered), path=counted)
        case CrashBeforeWrite(number):
            return proxy.inject(DieBeforeWrite(number), path=counted)
        case FailOnce(call, failure):
            return proxy.inject(_FAULTS[failure], call=call)
        case DelayWatch(resource, seconds):
            return proxy.inject(DelayEvents(seconds), watch=True, resource=_resource_filter(resource))
    return None


def _resource_filter(resource: str) -> str | None:
    return None if resource == EVERY_RESOURCE else resource
