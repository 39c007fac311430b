import asyncio

from gpuruntime.aio.turns import Turns


async def test_only_a_few_tasks_continue_per_loop_iteration_in_order_of_arrival() -> None:
    turns, passes, went = Turns(per_iteration=3), 0, list[tuple[int, int]]()

    async def wait(number: int) -> None:
        await turns.next()
        went.append((passes, number))

    tasks = [asyncio.create_task(wait(number)) for number in range(8)]
    while not all(task.done() for task in tasks):
        passes += 1
        await asyncio.sleep(0)

    together = [[number for at, number in went if at == one] for one in sorted({at for at, _ in went})]
    assert together == [[0, 1, 2], [3, 4, 5], [6, 7]]


async def test_a_cancelled_waiter_takes_no_turn() -> None:
    turns = Turns(per_iteration=1)
    gone = asyncio.create_task(turns.next())
    waiting = asyncio.create_task(turns.next())
    await asyncio.sleep(0)

    gone.cancel()
    await waiting

    assert gone.cancelled()
