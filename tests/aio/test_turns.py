import asyncio

from gpuruntime.aio.turns import Turns


async def test_in_one_pass_of_the_loop_only_a_few_go_on_those_first_who_came_first() -> None:
    turns, passes, went = Turns(at_once=3), 0, list[tuple[int, int]]()

    async def wait(number: int) -> None:
        await turns.next()
        went.append((passes, number))

    tasks = [asyncio.create_task(wait(number)) for number in range(8)]
    while not all(task.done() for task in tasks):
        passes += 1
        await asyncio.sleep(0)

    together = [[number for at, number in went if at == one] for one in sorted({at for at, _ in went})]
    assert together == [[0, 1, 2], [3, 4, 5], [6, 7]]


async def test_who_does_not_wait_any_more_takes_no_turn() -> None:
    turns = Turns(at_once=1)
    gone = asyncio.create_task(turns.next())
    waiting = asyncio.create_task(turns.next())
    await asyncio.sleep(0)

    gone.cancel()
    await waiting

    assert gone.cancelled()
