import asyncio

from gpuruntime.control.queueing.workqueue import WorkQueue
from gpuruntime.testing.virtual_time import run_virtual


async def held(queue: WorkQueue[str], key: str) -> None:
    queue.add(key)
    assert await queue.get() == key


def test_of_many_keys_those_with_workers_come_first_and_then_the_ones_that_are_due_first() -> None:
    async def story() -> tuple[int, list[str]]:
        queue = WorkQueue[str]("units")
        for number in range(5000):
            queue.add_after(f"late {number}", 1000 - number / 10)
        queue.pause("paused")
        await held(queue, "held")
        queue.add("ready")
        survey = await queue.survey(4)
        return survey.total, [view.key for view in survey.first]

    assert run_virtual(story()) == (5003, ["held", "ready", "late 4999", "late 4998"])


def test_others_run_while_many_keys_are_looked_at_and_what_is_done_meanwhile_is_not_shown() -> None:
    async def story() -> tuple[int, tuple[str, ...]]:
        queue = WorkQueue[str]("units")
        await held(queue, "held")
        for number in range(5000):
            queue.add_after(f"late {number}", 1000)
        looking = asyncio.create_task(queue.survey(1))
        turns = 0
        while not looking.done():
            await asyncio.sleep(0)
            turns += 1
            if turns == 2:
                queue.done("held")
        return turns, tuple(view.key for view in looking.result().first)

    turns, shown = run_virtual(story())

    assert turns >= 5
    assert "held" not in shown


async def test_a_key_is_found_whether_it_is_queued_held_or_paused_and_no_other_is() -> None:
    queue = WorkQueue[str]("units")
    await held(queue, "held")
    queue.add_rate_limited("waiting")
    queue.pause("paused")

    views = [queue.view(key) for key in ("held", "waiting", "paused", "unknown")]

    assert [(view.state.value, view.failures, view.paused) for view in views if view is not None] == [
        ("running", 0, False),
        ("waiting", 1, False),
        ("idle", 0, True),
    ]
