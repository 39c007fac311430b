"""One run of a contender that operates units, and what it has written meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from attrs import frozen

from hack.benchmarks.contenders import Contender, Failure, Outcome, Runner
from hack.benchmarks.units.meeting import Meeting
from hack.benchmarks.units.world import World
from hack.benchmarks.units.written import UserLog, counted

__all__ = ["Operating", "Window"]

Window = Callable[[], Awaitable[Mapping[str, float]]]


@frozen
class Operating:
    """Runs contenders in a world, each for at most `limit` seconds."""

    runner: Runner
    world: World
    limit: float

    async def run(self, contender: Contender, window: Window, *, units: int) -> Outcome:
        """Start a contender, wait until it has looked at `units` units and rests, and let `window` pass.

        The contender must be at rest again when `window` returns. The reading has what the contender measured of
        itself, what `window` gives, what was written meanwhile (see `counted`), and as `rest_writes` what was written
        before.
        """
        async with Meeting() as meeting:
            account = self.world.account()
            log = UserLog(self.world.audit_log, account.username)
            environment = {"KUBECONFIG": str(account.kubeconfig), **meeting.environment()}
            arguments = ("operator", "--objects", str(units))
            running = asyncio.create_task(self.runner.run(contender, arguments, environment, self.limit))
            looking = asyncio.create_task(_look(meeting, window, log))
            try:
                await asyncio.wait([running, looking], return_when=asyncio.FIRST_COMPLETED)
                if not looking.done():
                    return _early(running.result())
                seen = looking.result()
                meeting.end()
                outcome = await running
            finally:
                running.cancel()
                looking.cancel()
                await asyncio.wait([running, looking])
        return outcome if isinstance(outcome, Failure) else {**outcome, **seen}


async def _look(meeting: Meeting, window: Window, log: UserLog) -> Mapping[str, float]:
    began = log.position()
    await meeting.ready()
    rested = log.position()
    measured = await window()
    before, seen = counted(log.between(began, rested)), counted(log.between(rested, log.position()))
    return {**measured, **seen, "rest_writes": before["writes"]}


def _early(outcome: Outcome) -> Failure:
    return outcome if isinstance(outcome, Failure) else Failure("it ended before it was told to")
