"""What sources put on a queue, and when: in virtual time."""

import asyncio
import logging
from collections.abc import Iterable

import pytest

from gpuruntime.control.controllers.reconcile import Cause
from gpuruntime.control.controllers.sources import Channel, Timer, Watch
from gpuruntime.control.controllers.triggers import enqueue_object
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.queueing.priorities import LOW_PRIORITY
from gpuruntime.control.queueing.work_item import WorkItem
from gpuruntime.control.queueing.workqueue import WorkQueue
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import MapServer
from tests.control.scenes import running


async def drained(queue: WorkQueue[str]) -> list[WorkItem[str]]:
    """Everything that is ready now, in the order in which it is handed out."""
    turns: list[WorkItem[str]] = []
    while queue.counters.total_depth():
        turns.append(await queue.get_with_causes())
        queue.done(turns[-1].key)
    return turns


class Watching:
    """A watch of config maps by name, on a server that has one from the start."""

    def __init__(self) -> None:
        self.server = MapServer()
        self.server.put("early")
        self.cache = Cache(self.server)
        self.informer = self.cache.informer(ConfigMap)
        self.queue: WorkQueue[str] = WorkQueue("tests")

    def source(self, refused: str = "") -> Watch[str, ConfigMap]:
        return Watch(self.informer, lambda change: [change.key.name], [lambda change: change.key.name != refused])


def test_a_watch_turns_changes_into_keys_with_what_was_there_from_the_start_at_low_priority() -> None:
    async def story() -> list[WorkItem[str]]:
        scene = Watching()
        await scene.source(refused="refused").prepare(scene.queue)
        async with running(scene.cache):
            await scene.informer.synced()
            await asyncio.sleep(5)
            scene.server.put("late")
            scene.server.put("refused")
            scene.server.remove("late")
            await asyncio.sleep(1)
        return await drained(scene.queue)

    late, early = run_virtual(story())

    kind = "v1 ConfigMap"
    assert (late.key, late.priority) == ("late", 0)
    assert late.causes == (Cause(kind, "added", "a/late"), Cause(kind, "deleted", "a/late"))
    assert (early.key, early.priority, early.causes) == ("early", LOW_PRIORITY, (Cause(kind, "added", "a/early"),))
    assert [getattr(cause, "at", None) for cause in late.causes] == [5, 5]


def test_a_watch_that_is_closed_feeds_no_more_and_can_be_prepared_again() -> None:
    async def story() -> tuple[list[str], list[str]]:
        scene = Watching()
        source = scene.source()
        async with running(scene.cache):
            await source.prepare(scene.queue)
            await scene.informer.synced()
            source.close()
            source.close()
            scene.server.put("late")
            await asyncio.sleep(1)
            first = [turn.key for turn in await drained(scene.queue)]
            await source.prepare(scene.queue)
            return first, sorted(turn.key for turn in await drained(scene.queue))

    assert run_virtual(story()) == (["early"], ["early", "late"])


def test_a_watch_cancelled_while_it_joins_can_be_closed() -> None:
    async def story() -> bool:
        scene = Watching()
        source = scene.source()
        async with scene.informer._dispatcher.lock:
            preparing = asyncio.create_task(source.prepare(scene.queue))
            await asyncio.sleep(1)
            preparing.cancel()
            await asyncio.wait([preparing])
        source.close()
        return preparing.cancelled()

    assert run_virtual(story())


def test_a_watch_must_be_complete_before_the_first_run_and_the_others_need_not_be() -> None:
    async def story() -> None:
        scene = Watching()
        timer: Timer[str] = Timer(1.0, list)

        assert scene.source().informers == (scene.informer,)
        assert (Channel[str]().informers, timer.informers) == ((), ())
        await scene.source().run(scene.queue)
        await Channel[str]().run(scene.queue)

    run_virtual(story())


def test_a_channel_keeps_what_is_sent_before_the_start_at_its_highest_priority() -> None:
    async def story() -> list[WorkItem[str]]:
        channel, queue = Channel[str]("bell"), WorkQueue[str]("tests")
        channel.send("a", priority=3, why="first")
        channel.send("a", priority=-5, why="second")
        channel.send("b")
        await asyncio.sleep(7)
        await channel.prepare(queue)
        return await drained(queue)

    a, b = run_virtual(story())

    assert (a.key, a.priority, a.causes) == ("a", 3, (Cause("bell", "second"),))
    assert (b.key, b.priority, b.causes) == ("b", 0, (Cause("bell", "sent"),))


def test_a_channel_sends_to_the_queue_while_the_controller_runs_and_keeps_keys_after_it_stopped() -> None:
    async def story() -> list[list[str]]:
        channel, queues = Channel[str](), [WorkQueue[str]("one"), WorkQueue[str]("two")]
        await channel.prepare(queues[0])
        channel.send("now")
        channel.close()
        channel.send("later")
        await channel.prepare(queues[1])
        return [[turn.key for turn in await drained(queue)] for queue in queues]

    assert run_virtual(story()) == [["now"], ["later"]]


def tick(timer: Timer[str], seconds: float) -> list[tuple[float, WorkItem[str]]]:
    """What a timer enqueues in some seconds, and when."""

    async def story() -> list[tuple[float, WorkItem[str]]]:
        queue, turns = WorkQueue[str]("tests"), list[tuple[float, WorkItem[str]]]()

        async def work() -> None:
            while True:
                turn = await queue.get_with_causes()
                turns.append((asyncio.get_running_loop().time(), turn))
                queue.done(turn.key)

        await timer.prepare(queue)
        tasks = [asyncio.create_task(timer.run(queue)), asyncio.create_task(work())]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        timer.close()
        return turns

    return run_virtual(story())


def test_a_timer_gives_all_its_keys_each_time_at_low_priority_and_not_at_the_start() -> None:
    turns = tick(Timer(10.0, lambda: ["a", "b"], "clock"), 25)

    assert [(at, turn.key) for at, turn in turns] == [(10, "a"), (10, "b"), (20, "a"), (20, "b")]
    assert {turn.priority for _, turn in turns} == {LOW_PRIORITY}
    assert turns[0][1].causes == (Cause("clock", "tick"),)


def test_a_timer_whose_keys_cannot_be_had_says_so_and_tries_again_with_backoff(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[int] = []

    def keys() -> Iterable[str]:
        calls.append(1)
        if len(calls) <= 3:
            raise OSError("no disk")
        return ["a"]

    with caplog.at_level(logging.ERROR):
        turns = tick(Timer(10.0, keys), 25)

    assert [(round(at, 3), turn.key) for at, turn in turns] == [(10.7, "a"), (20.7, "a")]
    assert "no disk" in caplog.text


@pytest.mark.parametrize("seconds", [0, -1.0])
def test_a_timer_that_would_never_rest_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds"):
        Timer(seconds, list)


def test_keys_of_objects_are_the_usual_ones() -> None:
    async def story() -> list[ObjectKey]:
        scene, queue = Watching(), WorkQueue[ObjectKey]("tests")
        await Watch(scene.informer, enqueue_object()).prepare(queue)
        async with running(scene.cache):
            await scene.informer.synced()
            return [await queue.get()]

    assert run_virtual(story()) == [ObjectKey("a", "early")]
