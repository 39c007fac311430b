import asyncio

from gpuruntime.control.queueing.workqueue import WorkQueue
from gpuruntime.testing.virtual_time import run_virtual


async def start(queue: WorkQueue[str], key: str) -> None:
    queue.add(key)
    assert await queue.get() == key


def test_running_keys_come_first_then_keys_by_due_time() -> None:
    async def story() -> tuple[int, list[str]]:
        queue = WorkQueue[str]("units")
        for number in range(5000):
            queue.add_after(f"late {number}", 1000 - number / 10)
        queue.pause("paused")
        await start(queue, "running")
        queue.add("ready")
        sample = await queue.sample(4)
        return sample.total, [view.key for view in sample.first]

    assert run_virtual(story()) == (5003, ["running", "ready", "late 4999", "late 4998"])


def test_sampling_yields_to_the_loop_and_omits_keys_that_finish_meanwhile() -> None:
    async def story() -> tuple[int, tuple[str, ...]]:
        queue = WorkQueue[str]("units")
        await start(queue, "running")
        for number in range(5000):
            queue.add_after(f"late {number}", 1000)
        sampling = asyncio.create_task(queue.sample(1))
        yields = 0
        while not sampling.done():
            await asyncio.sleep(0)
            yields += 1
            if yields == 2:
                queue.done("running")
        return yields, tuple(view.key for view in sampling.result().first)

    yields, shown = run_virtual(story())

    assert yields >= 5
    assert "running" not in shown


async def test_view_finds_queued_running_and_paused_keys_only() -> None:
    queue = WorkQueue[str]("units")
    await start(queue, "running")
    queue.add_rate_limited("waiting")
    queue.pause("paused")

    views = [queue.view(key) for key in ("running", "waiting", "paused", "unknown")]

    assert [(view.state.value, view.failures, view.paused) for view in views if view is not None] == [
        ("running", 0, False),
        ("waiting", 1, False),
        ("idle", 0, True),
    ]
