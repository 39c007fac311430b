"""Requests with a guard, over real sockets: what is sent, what is not, on either event loop."""

import asyncio
import gc
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvloop
from attrs import define, field, frozen

from gpuruntime.kube import Endpoint, RetryPolicy, Transport
from gpuruntime.kube.auth.tls import Pem, Trust, client_context
from gpuruntime.kube.errors import NotSentError, UnavailableError
from gpuruntime.kube.transport.request import Request

if TYPE_CHECKING:
    from tests.kube.conftest import Authority, Tokens

Run = Callable[[Coroutine[Any, Any, None]], None]
LARGE = b"x" * (8 * 2**20)


@define
class Guard:
    """Lets the first questions pass; the transport asks once before it opens a connection."""

    passes: int = 10**9
    asked: int = 0

    def __call__(self) -> None:
        self.asked += 1
        if self.asked > self.passes:
            raise NotSentError("POST /x: not sent")


@define(eq=False)
class Server:
    """Reads requests byte by byte and answers each; `bodies` are those that came whole."""

    bodies: list[int] = field(factory=list)
    began: int = 0
    pace: Callable[[], Awaitable[None]] | None = None
    resets: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.began += 1
                length = next((line for line in head.split(b"\r\n") if line.startswith(b"Content-Length")), b": 0")
                if self.pace is not None:
                    await self.pace()
                self.bodies.append(len(await reader.readexactly(int(length.split(b":")[1]))))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        except asyncio.IncompleteReadError:
            pass
        except ConnectionResetError:
            self.resets += 1
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@frozen
class World:
    """A TLS server under a name, and what a client needs to believe it."""

    context: ssl.SSLContext
    trusting: ssl.SSLContext
    tokens: "type[Tokens]"

    @asynccontextmanager
    async def open(self, server: Server, proxy: str | None = None) -> AsyncIterator[Transport]:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=self.context, limit=2**24)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            endpoint = Endpoint(f"https://127.0.0.1:{port}", tls_server_name="api.test", proxy=proxy)
            credentials = self.tokens(endpoint, "token", ssl=self.trusting)
            async with Transport(credentials, user_agent="test", retries=RetryPolicy.none()) as transport:
                yield transport


@pytest.fixture
def world(authority: "Authority", tokens: "type[Tokens]", tmp_path: Path) -> World:
    pair = authority.issue("api.test")
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    return World(context, client_context(Trust(Pem("the authority", authority.certificate)), None, None), tokens)


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a story, and lets it leave nothing open."""

    def run_story(story: Coroutine[Any, Any, None]) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            request.param(story)
            gc.collect()
        assert [str(warning.message) for warning in caught] == []

    return run_story


@pytest.mark.parametrize("body", [b"{}", LARGE], ids=["small", "large"])
def test_what_the_guard_admits_arrives_whole_and_the_connection_is_used_again(
    world: World, run: Run, body: bytes
) -> None:
    async def story() -> None:
        server = Server()
        async with world.open(server) as transport:
            for _ in range(3):
                answer = await transport.send(Request("POST", "/x", body=body, guard=Guard()))
                assert answer.body == b"{}"
        assert (server.bodies, server.began) == ([len(body)] * 3, 3)

    run(story())


def test_what_the_guard_refuses_at_the_last_moment_is_not_sent(world: World, run: Run) -> None:
    async def story() -> None:
        server = Server()
        async with world.open(server) as transport:
            await transport.send(Request("POST", "/x", body=b"{}", guard=Guard()))
            with pytest.raises(NotSentError) as caught:
                await transport.send(Request("POST", "/x", body=b"{}", guard=Guard(passes=1)))

        assert (server.began, caught.value.outcome_unknown) == (1, False)

    run(story())


def test_a_request_that_is_cut_off_in_its_body_is_not_complete(world: World, run: Run) -> None:
    async def story() -> None:
        guard, stalled = Guard(), asyncio.Event()

        async def pace() -> None:
            # All that fits between the two is under way by now; the rest of the body asks again.
            guard.passes = 0
            stalled.set()

        server = Server(pace=pace)
        async with world.open(server) as transport:
            with pytest.raises(NotSentError) as caught:
                await transport.send(Request("POST", "/x", body=LARGE, guard=guard))
            await stalled.wait()

        assert (server.bodies, caught.value.outcome_unknown) == ([], False)

    run(story())


def test_a_request_that_left_too_late_is_reset_and_its_outcome_is_unknown(world: World, run: Run) -> None:
    async def story() -> None:
        server = Server()
        async with world.open(server) as transport:
            await transport.send(Request("POST", "/x", body=b"{}", guard=Guard()))
            # Before the request, before the bytes, and after them.
            with pytest.raises(NotSentError) as caught:
                await transport.send(Request("POST", "/x", body=b"{}", guard=Guard(passes=2)))

        assert caught.value.outcome_unknown

    run(story())


def test_a_guarded_request_that_is_given_up_leaves_nothing_open(world: World, run: Run) -> None:
    async def story() -> None:
        arrived = asyncio.Event()

        async def pace() -> None:
            arrived.set()
            await asyncio.Event().wait()

        server = Server(pace=pace)
        async with world.open(server) as transport, asyncio.TaskGroup() as group:
            asking = group.create_task(transport.send(Request("POST", "/x", body=b"{}", guard=Guard())))
            await arrived.wait()
            asking.cancel()

    run(story())


def test_a_guarded_request_goes_through_a_proxy(world: World, run: Run) -> None:
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        host, port = head.split(b" ")[1].split(b":")
        there_reader, there_writer = await asyncio.open_connection(host.decode(), int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await source.read(2**16):
                    sink.write(data)
            sink.close()

        await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))

    async def story() -> None:
        server = Server()
        proxy = await asyncio.start_server(relay, "127.0.0.1", 0)
        async with proxy:
            address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
            async with world.open(server, address) as transport:
                answer = await transport.send(Request("POST", "/x", body=b"{}", guard=Guard()))
                with pytest.raises(NotSentError):
                    await transport.send(Request("POST", "/x", body=b"{}", guard=Guard(passes=1)))

        assert (answer.body, server.bodies) == (b"{}", [2])

    run(story())


def test_a_server_that_is_not_believed_gets_no_guarded_request(
    world: World, run: Run, other_authority: "Authority"
) -> None:
    async def story() -> None:
        server = Server()
        stranger = client_context(Trust(Pem("another", other_authority.certificate)), None, None)
        suspicious = World(world.context, stranger, world.tokens)
        async with suspicious.open(server) as transport:
            with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED") as caught:
                await transport.send(Request("POST", "/x", body=b"{}", guard=Guard()))

        assert (server.began, caught.value.outcome_unknown) == (0, False)

    run(story())
