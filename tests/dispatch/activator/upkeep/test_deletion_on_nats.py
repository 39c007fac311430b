import pytest

from gpuruntime.api.invocations import function_stream
from gpuruntime.bus import StreamMissingError
from gpuruntime.dispatch.activator.upkeep.deletion import QueueDeletion
from tests.dispatch.activator.dispatch_scenes import Dispatching, function_of
from tests.dispatch.activator.scripted_worker import Answer, ScriptedWorker, working


async def test_a_deleted_function_cancels_what_waits_and_what_runs_and_then_its_queue_is_gone(
    world: Dispatching,
) -> None:
    function = function_of()
    queue = await world.serve(function)
    async with world.activator() as here, working(here.url, ScriptedWorker("w1")) as worker:
        keys = [await queue.accept(str(number)) for number in range(100)]
        await worker.until(lambda: bool(worker.taken))
        deletion = QueueDeletion(here.bus, here.activator.commits, here.activator.clock)
        await deletion.delete(function)
        await deletion.delete(function)
        ended = [await queue.ended(key) for key in keys]
        await worker.until(lambda: bool(worker.cancelled))
        await worker.answer(worker.taken[0], Answer(b"late"))
        await worker.until(lambda: bool(worker.committed))

    assert {(each.record.state, each.record.failure_class) for each in ended} == {("cancelled", "function_deleted")}
    assert await world.bus.jetstream.stream_info(function_stream(function.key)) is None
    assert not worker.committed[0].won
    assert here.figures.executed_twice == 0
    with pytest.raises(StreamMissingError):
        await queue.accept("too-late")


async def test_a_function_that_never_had_a_queue_is_deleted_at_once(world: Dispatching) -> None:
    async with world.activator() as here:
        deletion = QueueDeletion(here.bus, here.activator.commits, here.activator.clock)
        await deletion.delete(function_of())

    assert here.figures.ended == {}
