"""One run of a scenario under one plan."""

import asyncio
import re
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

from attrs import frozen

from gpuruntime.testing.crashing.environment import Setting
from gpuruntime.testing.crashing.idle_detection import Quietness
from gpuruntime.testing.crashing.normalisation import normalise
from gpuruntime.testing.crashing.operator_supervisor import Supervisor
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

__all__ = ["NOTHING_EXPECTED", "Outcome", "perform"]

NOTHING_EXPECTED = object()
_LISTENING_SECONDS = 0.3
_AFTERTHOUGHT_SECONDS = 0.1
_FAULTS: dict[Failure, Fault] = {
    "500": FailRequests(500, times=1),
    "429": FailRequests(429, retry_after=1, times=1),
    "409": FailRequests(409, times=1),
    "dropped": DropRequests(times=1),
    "unanswered": LoseResponses(times=1),
}


@frozen
class Outcome:
    """How a run ended.

    `met` is whether what was planned did happen, `point` the request at which it did. `repeated` are the writes of a
    second pass, `ends` tells how the operator ended by itself, `violations` what the scenario says must never be.
    """

    state: Any
    settled: bool
    met: bool
    point: str
    trace: Trace
    repeated: tuple[Exchange, ...]
    ends: tuple[str, ...]
    violations: tuple[str, ...]


async def perform(
    scenario: Scenario, operator: Operator, plan: Plan, setting: Setting, expected: Any = NOTHING_EXPECTED
) -> Outcome:
    """Run it until it is settled and quiet and its state is the `expected` one, or the patience is at an end."""
    async with asyncio.TaskGroup() as group:
        supervisor = Supervisor(operator, setting.launch, setting.proxy, group)
        run = _Run(scenario, plan, setting, supervisor, group)
        try:
            return await run.perform(expected)
        finally:
            await run.end()


class _Run:
    def __init__(
        self,
        scenario: Scenario,
        plan: Plan,
        setting: Setting,
        supervisor: Supervisor,
        group: asyncio.TaskGroup,
    ) -> None:
        self._scenario = scenario
        self._plan = plan
        self._stage = setting.stage
        self._proxy = setting.proxy
        self._witness = setting.stage.witness
        self._supervisor = supervisor
        self._group = group
        self._quiet = Quietness(setting.proxy, self._witness, supervisor, scenario.aside)
        self._helpers: list[asyncio.Task[None]] = []
        self._settled = False

    async def perform(self, expected: Any) -> Outcome:
        await self._scenario.prepare(self._stage)
        fault = _disturb(self._plan, self._proxy, self._scenario.aside)
        if fault is not None and isinstance(self._plan, CrashAfterWrite | CrashBeforeWrite):
            self._help(self._crash(fault))
        self._supervisor.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._scenario.patience):
                await self._quiet.lasts(_LISTENING_SECONDS)
                act = self._help(self._act())
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
            met=fault is None or fault.count > 0,
            point=self._point(),
            trace=trace,
            repeated=repeated,
            ends=tuple(self._supervisor.ends),
            violations=tuple(dict.fromkeys(self._violations())),
        )

    async def end(self) -> None:
        for helper in self._helpers:
            helper.cancel()
        await self._supervisor.kill()

    def _help(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside, until it ends or the run does."""
        self._helpers.append(self._group.create_task(work))
        return self._helpers[-1]

    async def _act(self) -> None:
        await self._scenario.act(self._stage)

    async def _crash(self, death: ActiveFault) -> None:
        await death.met()
        if isinstance(self._plan, CrashAfterWrite) and not self._plan.unanswered:
            # It has its answer; now let it think: until its next request, or a moment.
            seen = len(self._proxy.log.exchanges)
            with suppress(TimeoutError):
                async with asyncio.timeout(_AFTERTHOUGHT_SECONDS):
                    await self._proxy.changes.until(lambda: len(self._proxy.log.exchanges) > seen)
        await self._supervisor.kill()
        death.lift()
        self._supervisor.start()

    async def _hold(self, resource: str, act: asyncio.Task[None]) -> ActiveFault:
        """Keep the events back until the user's act has led to all that it leads to without them.

        The user may wait for what comes only with the events, so the act need not have ended.
        """
        with self._proxy.inject(HoldEvents(), watch=True, resource=_specific(resource)) as hold:
            await asyncio.wait([self._help(hold.met()), act], return_when=asyncio.FIRST_COMPLETED)
            await self._quiet.lasts(self._scenario.quiet)
        self._quiet.begin_anew()
        return hold

    async def _await_state(self, expected: Any) -> None:
        late = self._plan.seconds if isinstance(self._plan, DelayWatch) else 0.0
        while True:
            since = await self._quiet.lasts(self._scenario.quiet + late)
            if self._scenario.settled(self._witness.world):
                self._settled = True
                if expected is NOTHING_EXPECTED or await self._observe() == expected:
                    return
            await self._quiet.ends(since)

    async def _second_pass(self) -> tuple[Exchange, ...]:
        await self._supervisor.kill()
        before = len(self._writes())
        self._supervisor.start()
        try:
            async with asyncio.timeout(self._scenario.patience):
                await self._quiet.lasts(self._scenario.quiet)
        except TimeoutError:
            self._settled = False
        return self._writes()[before:]

    async def _observe(self) -> Any:
        world = await self._witness.catch_up()
        if self._scenario.observe is not None:
            return await self._scenario.observe(self._stage)
        return normalise(world.objects.values(), world.namespaces, self._scenario.ignoring, self._scenario.alike)

    def _violations(self) -> Iterator[str]:
        if self._scenario.never is not None:
            for moment in moments(self._witness.start, self._witness.events):
                said = self._scenario.never(moment)
                if said is not None:
                    yield said

    def _exchanges(self) -> tuple[Exchange, ...]:
        return tuple(
            exchange for exchange in self._proxy.log.exchanges if exchange.call.resource not in self._scenario.aside
        )

    def _writes(self) -> tuple[Exchange, ...]:
        return tuple(write for write in self._proxy.log.writes if write.call.resource not in self._scenario.aside)

    def _point(self) -> str:
        """What the operator was doing when the plan happened."""
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


def _disturb(plan: Plan, proxy: FaultProxy, aside: tuple[str, ...]) -> ActiveFault | None:
    """Switch on what the plan asks for from the beginning."""
    counted = f"(?!.*/(?:{'|'.join(map(re.escape, aside))})(?:/|$)).*" if aside else None
    match plan:
        case CrashAfterWrite(number, unanswered):
            return proxy.inject(DieAfterWrites(number, lose_answer=unanswered), path=counted)
        case CrashBeforeWrite(number):
            return proxy.inject(DieBeforeWrite(number), path=counted)
        case FailOnce(call, failure):
            return proxy.inject(_FAULTS[failure], call=call)
        case DelayWatch(resource, seconds):
            return proxy.inject(DelayEvents(seconds), watch=True, resource=_specific(resource))
    return None


def _specific(resource: str) -> str | None:
    return None if resource == EVERY_RESOURCE else resource
