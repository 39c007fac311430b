"""A cancelled request leaves no socket open when the loop ends, whatever the server does."""

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuruntime.kube import Endpoint, Transport
from gpuruntime.kube.auth.tls import Pem, Trust, client_context
from gpuruntime.kube.transport.request import Request

if TYPE_CHECKING:
    from tests.kube.conftest import Authority, Tokens

BEGUN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"


@contextmanager
def silent_server(context: ssl.SSLContext, answer: bytes) -> Iterator[tuple[int, threading.Event]]:
    """A port, and when the beginning of an answer was sent to the one who asks there; nothing is heard after that."""
    answered, over = threading.Event(), threading.Event()

    def serve() -> None:
        accepted, _ = listening.accept()
        with context.wrap_socket(accepted, server_side=True) as connection:
            connection.recv(2**16)
            connection.sendall(answer)
            answered.set()
            over.wait()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1], answered
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("answer", [b"", BEGUN], ids=["before an answer", "in the middle of it"])
@pytest.mark.parametrize("way", ["request", "stream"])
def test_a_request_that_is_given_up_leaves_no_socket_open(
    authority: "Authority", tokens: "type[Tokens]", tmp_path: Path, way: str, answer: bytes
) -> None:
    pair = authority.issue("api.test")
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    trusting = client_context(Trust(Pem("the authority", authority.certificate)), None, None)

    async def ask(transport: Transport) -> None:
        if way == "request":
            await transport.send(Request("GET", "/"))
        else:
            async with transport.stream(Request("GET", "/"), idle_timeout=60) as chunks:
                _ = [chunk async for chunk in chunks]

    async def story(port: int, answered: threading.Event) -> None:
        endpoint = Endpoint(f"https://127.0.0.1:{port}", tls_server_name="api.test")
        async with Transport(tokens(endpoint, "token", ssl=trusting), user_agent="test") as transport:
            asking = asyncio.create_task(ask(transport))
            await asyncio.to_thread(answered.wait)
            asking.cancel()
            await asyncio.wait([asking])

    with silent_server(context, answer) as server, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(story(*server))
        gc.collect()

    assert [str(warning.message) for warning in caught] == []
