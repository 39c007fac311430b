"""The connection on a real server: it reconnects, and never lies about what was sent."""

import asyncio
from pathlib import Path

import pytest
from attrs import evolve

from gpuruntime.bus import (
    Bus,
    BusCredentials,
    BusPermissionError,
    BusTimeoutError,
    BusUnavailableError,
    NoRespondersError,
    OutcomeUnknownError,
)
from gpuruntime.testing.nats import NatsServer
from tests.bus.connected import QUEUE, connected


async def test_a_request_is_answered_by_a_subscriber_on_another_connection(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as one, connected(nats_server.options()) as other:

        async def answer() -> None:
            async with other.subscribe("ask.*", "answerers") as questions:
                listening.set()
                async for question in questions:
                    await other.publish(question.reply, question.body.upper(), {"From": question.subject})

        listening = asyncio.Event()
        answering = asyncio.create_task(answer())
        await listening.wait()
        await other.settled(5)

        found = await one.request("ask.me", b"hello", timeout=20)

        answering.cancel()
        assert (found.body, found.headers) == (b"HELLO", {"From": "ask.me"})


async def test_a_request_to_nothing_fails_at_once(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        with pytest.raises(NoRespondersError, match=r"ask\.me: nothing subscribes"):
            await bus.request("ask.me", timeout=60)


async def test_an_expected_reply_costs_no_subscription_and_comes_from_another_connection(
    nats_server: NatsServer,
) -> None:
    async with connected(nats_server.options("runtime-api")) as one, connected(nats_server.options("activator")) as two:
        with one.expect_reply() as expected:
            await one.settled(5)
            await two.publish(expected.subject, b"done")
            async with asyncio.timeout(20):
                found = await expected.wait()

        assert found.body == b"done"


async def test_without_a_server_everything_fails_at_once_and_the_bus_goes_on_trying(nats_server: NatsServer) -> None:
    nats_server.stop()
    bus = Bus(nats_server.options())
    running = asyncio.create_task(bus.run())
    try:
        for act in (
            bus.publish("a", b"x"),
            bus.request("a", timeout=60),
            bus.jetstream.publish("inv.a", b"x", timeout=60),
            bus.ack("$JS.ACK.a"),
        ):
            with pytest.raises(BusUnavailableError) as refused:
                await act
            assert not isinstance(refused.value, OutcomeUnknownError)

        nats_server.start()
        async with asyncio.timeout(30):
            await bus.wait_connected()
        assert bus.problem == ""
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_what_is_under_way_when_the_server_dies_fails_at_once_and_nothing_is_sent_later(
    nats_server: NatsServer,
) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(QUEUE)
        nats_server.pause()
        write = asyncio.create_task(bus.jetstream.publish("inv.a", b"x", timeout=600))
        question = asyncio.create_task(bus.jetstream.last_message("QUEUE", "inv.a", timeout=600))
        await asyncio.sleep(0)

        nats_server.kill()
        async with asyncio.timeout(30):
            with pytest.raises(OutcomeUnknownError):
                await write
            with pytest.raises(BusTimeoutError):
                await question
        with pytest.raises(BusUnavailableError):
            await bus.publish("inv.b", b"lost")
        nats_server.start()
        await bus.wait_connected()

        assert await bus.jetstream.last_message("QUEUE", "inv.b") is None
        assert bus.connects == 2


async def test_a_write_without_an_answer_in_time_has_an_unknown_outcome(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(QUEUE)
        nats_server.pause()

        with pytest.raises(OutcomeUnknownError, match=r"no answer from NATS within 0\.1 s"):
            await bus.jetstream.publish("inv.a", b"x", message_id="a", timeout=0.1)
        nats_server.resume()
        again = await bus.jetstream.publish("inv.a", b"x", message_id="a", timeout=20)

        assert again.duplicate
        assert again.sequence == 1


async def test_a_cancelled_caller_leaves_nothing_behind(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        nats_server.pause()
        asking = asyncio.create_task(bus.request("ask", timeout=600))
        await asyncio.sleep(0)

        asking.cancel()
        await asyncio.wait([asking])
        nats_server.resume()

        assert asking.cancelled()
        assert not bus._questions


async def test_subscriptions_survive_a_restart(nats_server: NatsServer) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    async with connected(nats_server.options()) as bus, bus.subscribe("a") as subscription:
        with bus.listen("a", lambda message: heard.put_nowait(message.body)):
            nats_server.kill()
            await bus.wait_disconnected()
            nats_server.start()
            await bus.wait_connected()

            await bus.publish("a", b"x")

            async with asyncio.timeout(20):
                assert (await anext(subscription)).body == b"x"
                assert await heard.get() == b"x"


async def test_a_new_password_is_read_at_the_next_connect(nats_server: NatsServer) -> None:
    async with connected(nats_server.options("runtime-api")) as bus:
        nats_server.change_password("runtime-api")

        async with asyncio.timeout(30):
            await bus.wait_disconnected()
            await bus.wait_connected()

        assert bus.connects == 2


async def test_a_wrong_password_and_a_missing_file_are_named_as_the_problem(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    right = nats_server.options()
    cases = {
        "Authorization Violation": BusCredentials(right.credentials.user_file, wrong),
        "No such file": BusCredentials(right.credentials.user_file, tmp_path / "missing"),
    }
    for expected, credentials in cases.items():
        bus = Bus(evolve(right, credentials=credentials))
        running = asyncio.create_task(bus.run())
        try:
            async with asyncio.timeout(20):
                while expected.lower() not in bus.problem.lower():  # noqa: ASYNC110 - a failure has no event
                    await asyncio.sleep(0.01)
            assert not bus.connected
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_of_several_servers_one_that_serves_is_found(nats_server: NatsServer) -> None:
    options = evolve(nats_server.options(), servers=("nats://127.0.0.1:1", nats_server.url))

    async with connected(options) as bus:
        assert bus.connected


async def test_a_forbidden_subject_is_an_error_of_the_request_and_of_the_subscription(nats_server: NatsServer) -> None:
    async with connected(nats_server.options("result-store")) as bus:
        with pytest.raises(BusPermissionError):
            await bus.jetstream.publish("inv.a", b"x", timeout=60)
        async with bus.subscribe("inv.>") as subscription, asyncio.timeout(20):
            with pytest.raises(BusPermissionError):
                await anext(subscription)


async def test_tls_is_required_where_it_is_asked_for(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "tls", tls=True) as encrypted, NatsServer(tmp_path / "plain") as plain:
        async with connected(encrypted.options()) as bus:
            assert bus.connected

        downgraded = Bus(evolve(plain.options(), tls=encrypted.options().tls))
        running = asyncio.create_task(downgraded.run())
        try:
            async with asyncio.timeout(20):
                while "TLS" not in downgraded.problem:  # noqa: ASYNC110 - a failure has no event
                    await asyncio.sleep(0.01)
        finally:
            running.cancel()
            await asyncio.wait([running])
        assert not downgraded.connected


async def test_a_bus_ends_when_it_is_cancelled_whatever_its_connection_does_at_that_moment(
    nats_server: NatsServer,
) -> None:
    buses = [Bus(nats_server.options()) for _ in range(30)]
    tasks = [asyncio.create_task(bus.run()) for bus in buses]
    for bus in buses:
        await bus.wait_connected()

    nats_server.kill()
    # Each one turn of the event loop later than the one before it: during the loss, the close, and the next attempt.
    for task in tasks:
        await asyncio.sleep(0)
        task.cancel()
    done, running = await asyncio.wait(tasks, timeout=30)

    assert (len(done), running) == (30, set())
    assert all(task.cancelled() for task in done)
