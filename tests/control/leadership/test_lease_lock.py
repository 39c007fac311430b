"""What a candidate makes of lost answers, deleted leases and namesakes: in virtual time, on a lease in memory."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from attrs import define, field

from gpuruntime.control.leadership.lease_lock import LeaseLock
from gpuruntime.kube.errors import ConflictError, UnavailableError
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.lease_server import START, Exchange, Fate, LeaseServer, Wire

LOST = Exchange(Fate.LOST)
OK = Exchange()


@define
class Hand:
    """A hold on a wire."""

    name: str
    server: LeaseServer
    wire: Wire = field(init=False)
    hold: LeaseLock = field(init=False)

    def __attrs_post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.wire = Wire(self.server)
        self.hold = LeaseLock(
            self.wire,
            name="lease",
            namespace="a",
            identity=self.name,
            seconds=15,
            clock=loop.time,
            now=lambda: START + timedelta(seconds=loop.time()),
        )


def play(story: Coroutine[Any, Any, None]) -> None:
    run_virtual(story)


def test_a_claim_whose_answer_was_lost_is_recognised() -> None:
    async def story() -> None:
        one = Hand("one", LeaseServer())
        one.wire.script = [OK, LOST]
        with pytest.raises(UnavailableError):
            await one.hold.acquire()
        await asyncio.sleep(1.0)

        began = await one.hold.acquire()

        assert began == 0.0
        assert [spec.holder_identity for _, spec in one.server.history] == ["one"]
        assert await one.hold.renew()

    play(story())


def test_a_renewal_whose_answer_was_lost_is_recognised() -> None:
    async def story() -> None:
        one = Hand("one", LeaseServer())
        one.wire.script = [OK, OK, LOST]
        await one.hold.acquire()
        with pytest.raises(UnavailableError):
            await one.hold.renew()

        assert await one.hold.renew()

        assert one.hold.slow_paths == 1
        assert one.server.get().spec.holder_identity == "one"

    play(story())


def test_of_two_claims_on_one_version_one_wins() -> None:
    async def story() -> None:
        server = LeaseServer()
        server.hold("")
        one, two = Hand("one", server), Hand("two", server)

        won = await asyncio.gather(one.hold.acquire(), two.hold.acquire())

        assert sorted(won, key=str) == [0.0, None]
        assert server.get().spec.lease_transitions == 1

    play(story())


def test_a_namesake_has_to_wait_until_the_lease_has_run_out() -> None:
    async def story() -> None:
        server = LeaseServer()
        one, namesake = Hand("one", server), Hand("one", server)
        await one.hold.acquire()
        await asyncio.sleep(1.0)

        at_first = await namesake.hold.acquire()
        await asyncio.sleep(15.0)
        later = await namesake.hold.acquire()

        assert (at_first, later) == (None, 16.0)
        assert not await one.hold.renew()

    play(story())


def test_a_deleted_lease_protects_its_holder_from_candidates_that_had_seen_it() -> None:
    async def story() -> None:
        server = LeaseServer()
        server.hold("one", transitions=3)
        two = Hand("two", server)
        await two.hold.acquire()
        server.lease = None

        at_once = await two.hold.acquire()
        await asyncio.sleep(15.0)
        later = await two.hold.acquire()

        assert (at_once, later) == (None, 15.0)
        assert server.get().spec.lease_transitions == 4

    play(story())


def test_a_holder_whose_lease_was_deleted_puts_it_back() -> None:
    async def story() -> None:
        one = Hand("one", LeaseServer())
        await one.hold.acquire()
        before = one.server.get()
        one.server.lease = None
        await asyncio.sleep(2.0)

        assert await one.hold.renew()

        after = one.server.get()
        assert after.spec.acquire_time == before.spec.acquire_time
        assert after.spec.renew_time == "2026-01-02T03:04:07.000000Z"
        assert one.hold.slow_paths == 1

    play(story())


def test_a_release_touches_nothing_that_is_not_ours() -> None:
    async def story() -> None:
        one = Hand("one", LeaseServer())
        await one.hold.release()
        await one.hold.acquire()
        one.server.hold("two")

        with pytest.raises(ConflictError):
            await one.hold.release()
        await one.hold.release()

        assert one.server.get().spec.holder_identity == "two"
        assert [verb for _, verb in one.wire.asked] == ["get", "create", "update", "get"]

    play(story())


def test_a_release_of_a_lease_that_was_deleted_is_done() -> None:
    async def story() -> None:
        one = Hand("one", LeaseServer())
        await one.hold.acquire()
        one.server.lease = None

        await one.hold.release()

        assert one.server.lease is None

    play(story())
