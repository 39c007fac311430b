"""Supervision of the operator in a run: restarted when it exits, as by a kubelet, and killed where the plan says so."""

import asyncio

from gpuruntime.testing.crashing.operators import Launch, Operator
from gpuruntime.testing.faults.definitions import DieAtOnce
from gpuruntime.testing.faults.proxy import FaultProxy

__all__ = ["OperatorStuckError", "OperatorSupervisor"]

_RESTART_SECONDS = 0.2
_CANCEL_INTERVAL_SECONDS = 1.0
_CANCEL_ATTEMPTS = 30


class OperatorStuckError(Exception):
    """The operator ignores cancellation."""


class OperatorSupervisor:
    """Starts an operator, restarts it when it exits by itself, and kills it.

    `started` is the loop time of the last start, None while the operator is down. `exits` describes each exit that was
    the operator's own.
    """

    def __init__(self, operator: Operator, launch: Launch, proxy: FaultProxy, group: asyncio.TaskGroup) -> None:
        self._operator = operator
        self._launch = launch
        self._proxy = proxy
        self._group = group
        self._task: asyncio.Task[None] | None = None
        self._killed = False
        self.started: float | None = None
        self.exits: list[str] = []

    def start(self) -> None:
        self._killed = False
        self._task = self._group.create_task(self._run_until_killed())

    async def kill(self) -> None:
        """Cut the operator's connections, cancel it, and let requests pass again: its last writes are lost.

        Raises:
            OperatorStuckError: the operator does not end.
        """
        if self._task is None:
            return
        self._killed = True
        self.started = None
        with self._proxy.inject(DieAtOnce()):
            for _ in range(_CANCEL_ATTEMPTS):
                self._task.cancel()
                await asyncio.wait([self._task], timeout=_CANCEL_INTERVAL_SECONDS)
                if self._task.done():
                    break
            else:
                raise OperatorStuckError(f"the operator did not end after {_CANCEL_ATTEMPTS} cancellations")
        self._task = None

    async def _run_until_killed(self) -> None:
        while True:
            self.started = asyncio.get_running_loop().time()
            exit_reason = "returned"
            try:
                await self._operator(self._launch)
            except Exception as error:  # noqa: BLE001 - any error of the operator is an exit of the operator
                exit_reason = f"{type(error).__name__}: {error}"
            if self._killed:  # it turned the cancellation into another error, or returned
                return
            self.exits.append(exit_reason)
            self.started = None
            self._proxy.changes.announce()
            await asyncio.sleep(_RESTART_SECONDS)
