"""Keeps the operator of a run alive, as kubelet does, and kills it, as nobody should."""

import asyncio

from gpuruntime.testing.crashing.operators import Launch, Operator
from gpuruntime.testing.faults.definitions import DieAtOnce
from gpuruntime.testing.faults.proxy import FaultProxy

__all__ = ["ImmortalError", "Supervisor"]

_PAUSE_SECONDS = 0.2
_INSIST_SECONDS = 1.0
_ATTEMPTS = 30


class ImmortalError(Exception):
    """The operator ignores cancellation."""


class Supervisor:
    """Starts the operator, starts it again when it ends by itself, and kills it.

    `started` is the loop's time of the last start, None while it is dead. `ends` tells how it ended by itself.
    """

    def __init__(self, operator: Operator, launch: Launch, proxy: FaultProxy, group: asyncio.TaskGroup) -> None:
        self._operator = operator
        self._launch = launch
        self._proxy = proxy
        self._group = group
        self._life: asyncio.Task[None] | None = None
        self._killed = False
        self.started: float | None = None
        self.ends: list[str] = []

    def start(self) -> None:
        self._killed = False
        self._life = self._group.create_task(self._live())

    async def kill(self) -> None:
        """Cut its way to the server, end it, and open the way for the next: what it still wants to write is lost.

        Raises:
            ImmortalError: it does not end.
        """
        if self._life is None:
            return
        self._killed = True
        self.started = None
        with self._proxy.inject(DieAtOnce()):
            for _ in range(_ATTEMPTS):
                self._life.cancel()
                await asyncio.wait([self._life], timeout=_INSIST_SECONDS)
                if self._life.done():
                    break
            else:
                raise ImmortalError(f"the operator did not end though it was cancelled {_ATTEMPTS} times")
        self._life = None

    async def _live(self) -> None:
        while True:
            self.started = asyncio.get_running_loop().time()
            end = "returned"
            try:
                await self._operator(self._launch)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the operator's end, and not ours
                end = f"{type(error).__name__}: {error}"
            if self._killed:  # its last words instead of the cancellation
                return
            self.ends.append(end)
            self.started = None
            self._proxy.changes.announce()
            await asyncio.sleep(_PAUSE_SECONDS)
