"""One run of a contender that reconciles units, and its writes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from attrs import frozen

from hack.benchmarks.contenders import Contender, Failure, Outcome, Runner
from hack.benchmarks.operator.audit_log import UserLog, count_writes
from hack.benchmarks.operator.rendezvous import Rendezvous
from hack.benchmarks.operator.world import World

__all__ = ["Operating", "Window"]

Window = Callable[[], Awaitable[Mapping[str, float]]]


@frozen
class Operating:
    """Runs contenders in a world, each for at most `limit` seconds."""

    runner: Runner
    world: World
    limit: float

    async def run(self, contender: Contender, window: Window, *, units: int) -> Outcome:
        """Start a contender, wait until it has reconciled `units` units and is idle, and run `window`.

        The contender must be idle again when `window` returns. The reading holds the contender's own measurements, the
        result of `window`, the writes during it (see `count_writes`), and as `rest_writes` the writes before it.
        """
        async with Rendezvous() as rendezvous:
            account = self.world.account()
            log = UserLog(self.world.audit_log, account.username)
            environment = {"KUBECONFIG": str(account.kubeconfig), **rendezvous.environment()}
            arguments = ("operator", "--objects", str(units))
            running = asyncio.create_task(self.runner.run(contender, arguments, environment, self.limit))
            looking = asyncio.create_task(_look(rendezvous, window, log))
            try:
                await asyncio.wait([running, looking], return_when=asyncio.FIRST_COMPLETED)
                if not looking.done():
                    return _early(running.result())
                seen = looking.result()
                rendezvous.end()
                outcome = await running
            finally:
                running.cancel()
                looking.cancel()
                await asyncio.wait([running, looking])
        return outcome if isinstance(outcome, Failure) else {**outcome, **seen}


async def _look(rendezvous: Rendezvous, window: Window, log: UserLog) -> Mapping[str, float]:
    began = log.position()
    await rendezvous.ready()
    rested = log.position()
    measured = await window()
    before, seen = count_writes(log.between(began, rested)), count_writes(log.between(rested, log.position()))
    return {**measured, **seen, "rest_writes": before["writes"]}


def _early(outcome: Outcome) -> Failure:
    return outcome if isinstance(outcome, Failure) else Failure("it exited before the bench ended it")
