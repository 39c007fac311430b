"""The session of the HTTP library: sockets that notice a vanished peer, TLS that follows its context, proxies."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from gpuruntime.kube import Endpoint, RetryPolicy, UnavailableError
from gpuruntime.kube.auth.tls import Pem, Trust, client_context
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.session import open_session

if TYPE_CHECKING:
    from tests.kube.conftest import Authority, Serve, Tokens, TransportTo

ONCE = RetryPolicy.none()


def server_context(authority: "Authority", directory: Path) -> ssl.SSLContext:
    pair = authority.issue("api.test")
    (directory / "pair.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "pair.pem")
    return context


def trusting(authority: "Authority") -> ssl.SSLContext:
    return client_context(Trust(Pem("the authority", authority.certificate)), None, None)


async def port_of_the_client(request: web.BaseRequest) -> web.Response:
    assert request.transport is not None
    return web.json_response({"port": request.transport.get_extra_info("peername")[1]})


async def test_every_connection_is_kept_alive(serve: "Serve") -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    url = await serve(endless)
    async with open_session() as session, session.get(url) as response:
        assert response.connection is not None
        assert response.connection.transport is not None
        used = response.connection.transport.get_extra_info("socket")
        options = [
            used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            used.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            used.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
            used.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
        ]

    assert options == [1, 30, 15, 4]


async def test_a_new_tls_context_means_a_new_connection_and_the_same_one_does_not(
    serve: "Serve", transport_to: "TransportTo", tokens: type["Tokens"], authority: "Authority", tmp_path: Path
) -> None:
    url = await serve(port_of_the_client, server_context(authority, tmp_path))
    old, new = trusting(authority), trusting(authority)
    endpoint = Endpoint(url, tls_server_name="api.test")
    credentials = tokens(endpoint, "first", "second", ssl=old)
    credentials._left += tokens(endpoint, "third", ssl=new)._left
    transport = transport_to(credentials)

    ports = []
    for _ in range(3):
        ports.append((await transport.send(Request("GET", "/x"))).json_object()["port"])
        await credentials.refused(await credentials.authorize())

    assert ports[0] == ports[1]
    assert ports[1] != ports[2]


async def test_a_server_that_is_not_believed_gets_no_request(
    serve: "Serve",
    transport_to: "TransportTo",
    tokens: type["Tokens"],
    authority: "Authority",
    other_authority: "Authority",
    tmp_path: Path,
) -> None:
    url = await serve(port_of_the_client, server_context(authority, tmp_path))
    strangers = [
        tokens(Endpoint(url, tls_server_name="api.test"), "hush", ssl=trusting(other_authority)),
        tokens(Endpoint(url, tls_server_name="other.test"), "hush", ssl=trusting(authority)),
    ]

    for stranger in strangers:
        with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            await transport_to(stranger, retries=ONCE).send(Request("POST", "/x", body=b"{}"))

        assert caught.value.outcome_unknown is False


async def test_the_proxy_of_the_endpoint_is_used_with_its_password(
    serve: "Serve", transport_to: "TransportTo", tokens: type["Tokens"]
) -> None:
    seen: list[tuple[str, str]] = []

    async def proxy(request: web.BaseRequest) -> web.Response:
        seen.append((request.raw_path, request.headers["Proxy-Authorization"]))
        return web.json_response({})

    address = (await serve(proxy)).replace("://", "://me:hush@")
    await transport_to(tokens(Endpoint("http://api.test:8080", proxy=address), "token")).send(Request("GET", "/x"))

    assert seen == [("http://api.test:8080/x", "Basic bWU6aHVzaA==")]


async def test_a_proxy_that_refuses_is_named_as_the_culprit(
    serve: "Serve", transport_to: "TransportTo", tokens: type["Tokens"], authority: "Authority"
) -> None:
    async def proxy(request: web.BaseRequest) -> web.Response:
        assert request.method == "CONNECT"
        return web.Response(status=407)

    address = (await serve(proxy)).replace("://", "://me:hush@")
    credentials = tokens(Endpoint("https://api.test", proxy=address), "token", ssl=trusting(authority))
    with pytest.raises(UnavailableError, match=r"POST /x: .*407") as caught:
        await transport_to(credentials, retries=ONCE).send(Request("POST", "/x", body=b"{}"))

    assert caught.value.outcome_unknown is False
    assert "hush" not in str(caught.value)
