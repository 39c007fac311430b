from collections.abc import Mapping

import pytest
from attrs import define
from prometheus_client import CollectorRegistry

from gpuruntime.control.metrics.client import ClientCollector
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.transport.request import Request
from gpuruntime.testing.scripted.answers import kube_status, respond
from gpuruntime.testing.scripted.server import ScriptedServer
from tests.control.operator_scenes import open_transport


@define
class Counted:
    """A transport with fixed counts and a fixed address."""

    server: str
    counts: Mapping[tuple[str, str], int]


def requests(registry: CollectorRegistry, code: str, method: str, host: str) -> float | None:
    return registry.get_sample_value("rest_client_requests_total", {"code": code, "method": method, "host": host})


async def test_requests_are_counted_by_code_method_and_host() -> None:
    registry = CollectorRegistry()
    collector = ClientCollector(registry)
    async with ScriptedServer() as server, open_transport(server.url) as transport:
        server.on("GET", "/version").answer(respond(200, {}), kube_status(404, "NotFound"))
        collector.add(transport)

        await transport.send(Request("GET", "/version"))
        with pytest.raises(NotFoundError):
            await transport.send(Request("GET", "/version"))

        host = server.url.removeprefix("http://")
        assert requests(registry, "200", "GET", host) == 1
        assert requests(registry, "404", "GET", host) == 1


def test_transports_to_one_host_share_a_series() -> None:
    registry = CollectorRegistry()
    collector = ClientCollector(registry)

    collector.add(Counted("https://api.example:6443", {("200", "GET"): 2, ("<error>", "PUT"): 1}))
    collector.add(Counted("https://api.example:6443/prefix", {("200", "GET"): 40}))
    collector.add(Counted("https://[::1]:6443", {("200", "GET"): 500}))

    assert requests(registry, "200", "GET", "api.example:6443") == 42
    assert requests(registry, "<error>", "PUT", "api.example:6443") == 1
    assert requests(registry, "200", "GET", "[::1]:6443") == 500


def test_a_password_in_an_address_is_not_exported() -> None:
    registry = CollectorRegistry()

    ClientCollector(registry).add(Counted("https://user:secret@api.example", {("200", "GET"): 1}))

    assert requests(registry, "200", "GET", "api.example") == 1


def test_an_address_that_is_discovered_late_is_exported_from_then_on() -> None:
    registry = CollectorRegistry()
    transport = Counted("https://no-cluster-yet.invalid", {("200", "GET"): 1})
    ClientCollector(registry).add(transport)

    transport.server = "https://api.example"

    assert requests(registry, "200", "GET", "api.example") == 1
    assert requests(registry, "200", "GET", "no-cluster-yet.invalid") is None
