"""Which requests leave, on a real socket, with a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import define, field
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.control.leadership.fence import Fence, NotLeaderError
from gpuruntime.control.leadership.fenced_transport import FencedTransport
from gpuruntime.kube.auth.credentials import Authorization, Endpoint
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.testing.scripted.answers import Hold, Stall, kube_status, respond, watch_stream
from gpuruntime.testing.scripted.server import ScriptedServer

PATH = "/api/v1/namespaces/a/configmaps/b"


@define
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@define
class Anonymous:
    """Anonymous credentials that can be refreshed without limit."""

    endpoint: Endpoint
    refusals: int = 0
    then: Callable[[], None] = lambda: None
    authorization: Authorization = field(factory=lambda: Authorization(CIMultiDictProxy(CIMultiDict()), None))

    async def authorize(self) -> Authorization:
        # After whatever the caller does in the same step.
        asyncio.get_running_loop().call_soon(self.then)
        return self.authorization

    async def refused(self, used: Authorization) -> bool:
        assert used is self.authorization
        self.refusals += 1
        return True


@define
class Scene:
    server: ScriptedServer
    transport: Transport
    fence: Fence
    clock: Clock
    credentials: Anonymous

    @property
    def fenced(self) -> FencedTransport:
        return FencedTransport(self.transport, self.fence)


@asynccontextmanager
async def scene(**options: Any) -> AsyncIterator[Scene]:
    clock = Clock()
    async with ScriptedServer() as server:
        server.on("GET", PATH).answer(respond(200, {"read": True}))
        server.on("PUT", PATH).answer(respond(200, {"written": True}))
        credentials = Anonymous(Endpoint(server.url))
        async with Transport(credentials, user_agent="test", **options) as transport:
            yield Scene(server, transport, Fence(clock), clock, credentials)


async def test_reads_pass_a_shut_fence() -> None:
    async with scene() as here:
        here.server.on("GET", PATH, watch=True).answer(watch_stream())
        answer = await here.fenced.send(Request("GET", PATH))
        async with here.fenced.stream(Request("GET", PATH, params={"watch": "1"}), idle_timeout=5.0) as chunks:
            rest = [chunk async for chunk in chunks]

    assert answer.json_object() == {"read": True}
    assert rest == []


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_no_write_passes_a_shut_fence(method: str) -> None:
    async with scene() as here:
        with pytest.raises(NotLeaderError, match=f"{method} {PATH}") as caught:
            await here.fenced.send(Request(method, PATH, body=b"{}"))

        assert here.server.requests() == ()
        assert not caught.value.outcome_unknown


async def test_a_write_passes_an_open_fence_as_it_is() -> None:
    async with scene() as here:
        here.fence.open_until(10.0)
        answer = await here.fenced.send(
            Request("PUT", PATH, params={"dryRun": "All"}, body=b"{}", content_type="text/plain")
        )

        (seen,) = here.server.requests()
        assert answer.json_object() == {"written": True}
        assert (seen.body, seen.query["dryRun"], seen.headers["Content-Type"]) == (b"{}", "All", "text/plain")


async def test_no_write_passes_once_the_deadline_has_passed() -> None:
    async with scene() as here:
        here.fence.open_until(10.0)
        here.clock.now = 10.0

        with pytest.raises(NotLeaderError):
            await here.fenced.send(Request("PUT", PATH, body=b"{}"))

        assert here.server.requests() == ()


async def test_a_write_without_an_answer_ends_before_the_deadline_and_may_have_been_executed() -> None:
    async with scene() as here:
        here.server.on("PUT", PATH).answer((Stall(),))
        here.fence.open_until(2.0)

        with pytest.raises(NotLeaderError) as caught:
            await here.fenced.send(Request("PUT", PATH, body=b"{}"))

        assert caught.value.outcome_unknown


async def test_a_write_keeps_its_own_timeout_where_that_is_shorter() -> None:
    async with scene() as here:
        here.server.on("PUT", PATH).answer((Stall(),))
        here.fence.open_until(300.0)

        with pytest.raises(UnavailableError, match=r"0.1 s"):
            await here.fenced.send(Request("PUT", PATH, body=b"{}", timeout=0.1))


async def test_a_write_under_way_is_given_up_when_the_fence_is_shut() -> None:
    async with scene() as here, asyncio.TaskGroup() as group:
        here.server.on("PUT", PATH).answer((Stall(),))
        here.fence.open_until(300.0)
        writing = group.create_task(raised_by(here.fenced, "PUT"))
        await here.server.seen(1, "PUT")

        here.fence.shut()

        assert isinstance(await writing, NotLeaderError)


async def test_a_write_that_waited_for_its_turn_looks_at_the_clock_again() -> None:
    async with scene(max_in_flight=1) as here, asyncio.TaskGroup() as group:
        here.server.on("GET", PATH).answer((Hold(), *respond(200, {})))
        here.fence.open_until(300.0)
        group.create_task(here.fenced.send(Request("GET", PATH)))
        await here.server.seen(1, "GET")
        writing = group.create_task(raised_by(here.fenced, "PUT"))
        await asyncio.sleep(0)  # it is in the queue now

        # As after a suspend: no timer of the loop knows.
        here.clock.now = 300.0
        here.server.release()

        assert not (await writing).outcome_unknown
        assert here.server.requests("PUT") == ()


async def test_a_write_that_is_tried_again_looks_at_the_clock_again() -> None:
    async def sleep(_: float) -> None:
        here.clock.now = 300.0

    async with scene(sleep=sleep) as here:
        here.server.on("PUT", PATH).answer(kube_status(429, "TooManyRequests", "later"))
        here.fence.open_until(300.0)

        error = await raised_by(here.fenced, "PUT")

        assert not error.outcome_unknown
        assert len(here.server.requests("PUT")) == 1


async def test_a_write_that_was_refused_and_comes_with_a_new_token_looks_at_the_clock_again() -> None:
    async with scene() as here:
        here.server.on("PUT", PATH).answer((Hold(), *kube_status(401, "Unauthorized", "who?")))
        here.fence.open_until(300.0)
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(raised_by(here.fenced, "PUT"))
            await here.server.seen(1, "PUT")
            here.clock.now = 300.0
            here.server.release()

        assert not writing.result().outcome_unknown
        assert here.credentials.refusals == 1
        assert len(here.server.requests("PUT")) == 1


async def test_a_write_that_waited_for_a_connection_looks_at_the_clock_again() -> None:
    async with scene() as here:
        here.fence.open_until(300.0)
        here.credentials.then = lambda: setattr(here.clock, "now", 300.0)

        error = await raised_by(here.fenced, "PUT")

        assert here.server.requests() == ()
        assert not error.outcome_unknown


async def test_a_write_of_an_earlier_term_does_not_pass_the_fence_of_a_later_one() -> None:
    async with scene() as here:
        here.fence.open_until(300.0)
        guard = here.fence.guard("PUT")
        here.fence.shut()
        here.fence.open_until(600.0)

        with pytest.raises(NotLeaderError):
            guard()
        here.fence.guard("PUT")()


async def test_other_requests_of_the_same_transport_know_no_fence() -> None:
    async with scene() as here:
        answer = await here.transport.send(Request("PUT", PATH, body=b"{}"))

    assert answer.json_object() == {"written": True}


async def raised_by(transport: FencedTransport, method: str) -> NotLeaderError:
    with pytest.raises(NotLeaderError) as caught:
        await transport.send(Request(method, PATH, body=b"{}", timeout=600.0))
    return caught.value
