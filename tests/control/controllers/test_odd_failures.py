"""Runs that raise what is no Exception: one key's failure, unless the program is to end."""

import asyncio
from collections.abc import Callable

import pytest

from gpuruntime.control.controllers.controller import Controller, ControllerOptions
from gpuruntime.control.controllers.reconcile import Result, RunInfo
from gpuruntime.control.controllers.sources import Channel
from gpuruntime.testing.virtual_time import run_virtual

TEXTS = ControllerOptions(parse_key=str)


class OddError(BaseException):
    """An error of an unexpected type."""


class Raising:
    """Raises in the first run of the key "odd", and notes all runs."""

    def __init__(self, make: Callable[[], BaseException]) -> None:
        self._make = make
        self.runs: list[str] = []

    async def reconcile(self, key: str, _context: RunInfo) -> Result:
        self.runs.append(key)
        await asyncio.sleep(0.1)
        if self.runs == ["odd"]:
            raise self._make()
        return Result.done()


async def run_both(reconciler: Raising) -> bool:
    """Run the keys "odd" and "sound"; whether the controller still works afterwards."""
    channel = Channel[str]()
    working = asyncio.create_task(Controller("tests", reconciler, [channel], options=TEXTS).run())
    channel.send("odd")
    await asyncio.sleep(0.5)
    channel.send("sound")
    await asyncio.sleep(100)
    is_working = not working.done()
    working.cancel()
    await asyncio.wait([working])
    return is_working


@pytest.mark.parametrize(
    "make",
    [
        GeneratorExit,
        lambda: OddError("odd"),
        lambda: BaseExceptionGroup("both", [GeneratorExit(), ValueError("x")]),
        asyncio.CancelledError,
    ],
    ids=["GeneratorExit", "foreign", "group", "CancelledError"],
)
def test_whatever_a_run_raises_the_controller_goes_on(make: Callable[[], BaseException]) -> None:
    reconciler = Raising(make)

    assert run_virtual(run_both(reconciler))
    assert reconciler.runs == ["odd", "odd", "sound"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_ends_it(error: type[BaseException]) -> None:
    with pytest.raises(error):
        run_virtual(run_both(Raising(error)))


def test_a_worker_that_is_closed_from_outside_ends_quietly() -> None:
    async def story() -> None:
        channel = Channel[str]()
        channel.send("sound")
        controller = Controller("tests", Raising(OddError), [channel], options=TEXTS)
        await channel.prepare(controller.queue)
        worker = controller._worker()
        worker.send(None)
        worker.close()

    run_virtual(story())
