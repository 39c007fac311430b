"""Which lines carry which run: a real controller, in virtual time."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from gpuruntime.control.controllers.controller import Controller, ControllerOptions
from gpuruntime.control.controllers.log_context import ReconcileFields, add_log_fields
from gpuruntime.control.controllers.reconcile import Result, RunInfo
from gpuruntime.control.controllers.sources import Channel
from gpuruntime.testing.virtual_time import run_virtual

TEXTS = ControllerOptions(parse_key=str)

LOG = logging.getLogger("tests.of.a.foreign.library")
FIELDS = ("controller", "key", "reconcile_id")


class Collected(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def fields(self, message: str) -> list[tuple[str, ...]]:
        """The fields of all lines with this message; those that a line lacks are left out."""
        lines = [vars(record) for record in self.records if record.getMessage() == message]
        return [tuple(line[name] for name in FIELDS if name in line) for line in lines]


@pytest.fixture
def collected() -> Iterator[Collected]:
    handler = Collected()
    handler.addFilter(ReconcileFields())
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield handler
    LOG.removeHandler(handler)


class Talker:
    """A reconciler that says something before and after it waits, and has others say something."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    async def reconcile(self, key: str, context: RunInfo) -> Result:
        self.ids[key] = context.reconcile_id
        LOG.info("begin")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._child())
        LOG.info("end")
        if key == "bad":
            raise RuntimeError("a bug")
        return Result.done()

    async def _child(self) -> None:
        await asyncio.sleep(1)
        LOG.info("child")


def test_lines_inside_of_a_run_carry_the_fields_of_their_own_run_and_lines_outside_carry_none(
    collected: Collected,
) -> None:
    async def story() -> dict[str, str]:
        talker, channel = Talker(), Channel[str]()
        controllers = [
            Controller(name, talker, [source], options=TEXTS)
            for name, source in (("one", channel), ("two", Channel[str]()))
        ]
        tasks = [asyncio.create_task(controller.run()) for controller in controllers]
        channel.send("x")
        controllers[1].queue.add("y")
        await asyncio.sleep(0.5)
        LOG.info("outside")
        await asyncio.sleep(0.6)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        LOG.info("outside")
        return talker.ids

    ids = run_virtual(story())

    runs = sorted([("one", "x", ids["x"]), ("two", "y", ids["y"])])
    assert {len(reconcile_id) for reconcile_id in ids.values()} == {12}
    for message in ("begin", "child", "end"):
        assert sorted(collected.fields(message)) == runs
    assert collected.fields("outside") == [(), ()]


def test_the_library_s_own_line_about_a_failed_run_carries_the_fields(collected: Collected) -> None:
    logging.getLogger("gpuruntime.control.controllers.controller").addHandler(collected)

    async def story() -> str:
        talker, channel = Talker(), Channel[str]()
        task = asyncio.create_task(Controller("one", talker, [channel], options=TEXTS).run())
        channel.send("bad")
        await asyncio.sleep(1.001)
        task.cancel()
        await asyncio.wait([task])
        return talker.ids["bad"]

    try:
        reconcile_id = run_virtual(story())
    finally:
        logging.getLogger("gpuruntime.control.controllers.controller").removeHandler(collected)

    assert collected.fields("reconcile failed") == [("one", "bad", reconcile_id)]


def test_every_line_passes() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "m", (), None)

    assert ReconcileFields().filter(record) is True


def test_what_a_run_says_about_itself_is_on_its_later_lines_and_on_no_other_runs() -> None:
    lines: list[tuple[str, object]] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append((record.getMessage(), getattr(record, "order", None)))

    handler = Handler()
    handler.addFilter(ReconcileFields())
    log = logging.getLogger("orders")
    log.setLevel(logging.INFO)
    log.addHandler(handler)

    class Clerk:
        async def reconcile(self, key: str, _context: RunInfo) -> Result:
            log.info("begun")
            if key == "first":
                add_log_fields(order="o-1")
            log.info("done")
            return Result.done()

    async def story() -> None:
        channel = Channel[str]()
        task = asyncio.create_task(Controller("clerk", Clerk(), [channel], options=TEXTS).run())
        channel.send("first")
        await asyncio.sleep(1.0)
        channel.send("second")
        await asyncio.sleep(1.0)
        add_log_fields(order="nobody's")
        log.info("outside")
        task.cancel()
        await asyncio.wait([task])

    try:
        run_virtual(story())
    finally:
        log.removeHandler(handler)

    assert lines == [("begun", None), ("done", "o-1"), ("begun", None), ("done", None), ("outside", None)]
