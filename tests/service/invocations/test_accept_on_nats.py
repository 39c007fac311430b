import asyncio

import pytest

from gpuruntime.api.invocations import FailureClass, InvocationMode, InvocationState
from gpuruntime.service.errors import InvocationConflictError, PayloadTooLargeError, QueueLimitError
from gpuruntime.service.invocations.results import EndedInvocation
from gpuruntime.service.invocations.status import OpenInvocation
from gpuruntime.testing.nats import NatsServer
from tests.service.invocations.invocation_scenes import function, invoked


async def test_an_invocation_is_accepted_runs_and_ends(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        accepted = await world.one.invoke(world.request(b"\x00\xff", content_type="image/png"))
        waiting = await world.other.status(accepted.key)
        delivery = await world.worker.take()
        running = await world.other.status(accepted.key)
        await world.worker.end(delivery, b"done")
        ended = await world.other.result(world.one.key(accepted.key.id))

    assert (accepted.is_duplicate, accepted.sequence) == (False, 1)
    assert isinstance(waiting, OpenInvocation)
    assert (waiting.state, waiting.place, waiting.waiting_for) == (InvocationState.QUEUED, 1, "no worker is ready")
    assert delivery.body == b"\x00\xff"
    assert isinstance(running, OpenInvocation)
    assert running.run is not None
    assert (running.state, running.run.record.attempt, running.run.record.worker) == ("running", 1, "unit-1")
    assert isinstance(ended, EndedInvocation)
    assert (ended.record.state, ended.record.content_type, ended.body) == ("succeeded", "image/png", b"done")


async def test_one_id_from_fifty_callers_of_two_replicas_is_one_invocation(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        requests = [world.request(own_id="order.1:a") for _ in range(50)]

        accepted = await asyncio.gather(
            *((world.one, world.other)[number % 2].invoke(request) for number, request in enumerate(requests))
        )

        assert sum(not each.is_duplicate for each in accepted) == 1
        assert {each.sequence for each in accepted} == {1}
        assert await world.queued() == {"order.1:a"}


async def test_another_payload_under_the_same_id_is_a_conflict_while_queued_running_and_ended(
    nats_server: NatsServer,
) -> None:
    async with invoked(nats_server) as world:
        other = world.request(b'"other"', own_id="one")
        await world.one.invoke(world.request(own_id="one"))

        with pytest.raises(InvocationConflictError, match="invocation one: the ID was used for another request"):
            await world.other.invoke(other)
        delivery = await world.worker.take()
        with pytest.raises(InvocationConflictError):
            await world.other.invoke(other)
        await world.worker.end(delivery)
        with pytest.raises(InvocationConflictError):
            await world.other.invoke(other)
        again = await world.other.invoke(world.request(own_id="one"))

        assert isinstance(again.known, EndedInvocation)
        assert (again.known.record.state, again.sequence) == ("succeeded", None)
        assert await world.queued() == set()


async def test_an_id_belongs_to_its_function(nats_server: NatsServer) -> None:
    async with invoked(nats_server, function(), function("other")) as world:
        first = await world.one.invoke(world.request(own_id="one"))
        second = await world.other.invoke(world.request(b"2", own_id="one", name="other"))

    assert not first.is_duplicate
    assert not second.is_duplicate


async def test_a_call_gets_its_result_and_the_same_call_elsewhere_gets_the_same(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        calls = [
            asyncio.create_task(each.call(world.request(own_id="one", mode=InvocationMode.SYNC), 60))
            for each in (world.one, world.other)
        ]
        delivery = await world.worker.take()
        await world.worker.end(delivery, b"42")
        called = await asyncio.gather(*calls)
        later = await world.one.call(world.request(own_id="one", mode=InvocationMode.SYNC), 60)

    for each in (*called, later):
        assert each.ended is not None
        assert each.ended.body == b"42"
    assert sorted(each.accepted.is_duplicate for each in called) == [False, True]
    assert later.accepted.is_duplicate


async def test_a_call_whose_reply_is_lost_reads_its_result(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        call = asyncio.create_task(world.one.call(world.request(mode=InvocationMode.SYNC), 60))
        await world.worker.end(await world.worker.take(), b"42", replies=False)

        called = await call

    assert called.ended is not None
    assert called.ended.body == b"42"


async def test_a_call_that_takes_too_long_has_no_result_and_goes_on(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        called = await world.one.call(world.request(mode=InvocationMode.SYNC), 0.2)

        assert called.ended is None
        assert await world.queued() == {called.accepted.key.id}


async def test_limits_of_the_function_refuse_what_is_too_large_and_what_is_too_much(nats_server: NatsServer) -> None:
    limits = {"maxRequestBytes": "2Ki", "maxQueued": 2}
    async with invoked(nats_server, function(invocation=limits)) as world:
        largest = await world.one.invoke(world.request(bytes(2048)))
        with pytest.raises(PayloadTooLargeError, match=r"payload: expected at most 2048 bytes.*got 2049"):
            await world.one.invoke(world.request(bytes(2049)))
        empty = await world.one.invoke(world.request(b""))
        with pytest.raises(QueueLimitError, match="is full: at most 2 invocations") as full:
            await world.one.invoke(world.request())
        await world.worker.end(await world.worker.take())
        after = await world.one.invoke(world.request())

    assert full.value.retry_after == 30
    assert (largest.sequence, empty.sequence) == (1, 2)
    assert after.sequence is not None


async def test_an_invocation_that_waited_too_long_expires_when_it_is_read(nats_server: NatsServer) -> None:
    limits = {"queueTTLSeconds": 1}
    async with invoked(nats_server, function(invocation=limits)) as world:
        accepted = await world.one.invoke(world.request(b"kept"))
        found = await world.other.status(accepted.key)
        while isinstance(found, OpenInvocation):
            await asyncio.sleep(0.1)  # the clock of NATS decides
            found = await world.other.status(accepted.key)
        letter = await world.admin.jetstream.last_message("DLQ", "dlq.>")

        assert (found.record.state, found.record.failure_class) == ("expired", FailureClass.QUEUE_TIMEOUT)
        assert letter is not None
        assert letter.body == b"kept"
        assert await world.queued() == set()
