import asyncio

from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.unit_turns import UnitTurns

ONE, TWO = ObjectKey("a", "one"), ObjectKey("a", "two")


async def test_one_task_at_a_time_works_on_a_unit_and_others_on_other_units() -> None:
    turns, order = UnitTurns(), list[str]()
    entered, leave = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with turns.of(ONE):
            entered.set()
            await leave.wait()
            order.append("first")

    async def second() -> None:
        async with turns.of(ONE):
            order.append("second")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first())
        await entered.wait()
        tasks.create_task(second())
        async with turns.of(TWO):
            order.append("other")
        leave.set()

    assert order == ["other", "first", "second"]
    assert turns == UnitTurns()
