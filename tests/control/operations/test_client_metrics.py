from collections.abc import Mapping

import pytest
from attrs import frozen
from prometheus_client import CollectorRegistry

from gpuruntime.control.operations.client_metrics import ClientCollector
from gpuruntime.kube.credentials import Endpoint
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.testing.scripted_answers import kube_status, respond
from gpuruntime.testing.scripted_server import ScriptedServer
from tests.control.operator_scenes import open_transport


@frozen
class Counted:
    """A transport that has sent what it says."""

    counts: Mapping[tuple[str, str], int]


def requests(registry: CollectorRegistry, code: str, method: str, host: str) -> float | None:
    return registry.get_sample_value("rest_client_requests_total", {"code": code, "method": method, "host": host})


async def test_requests_are_counted_by_code_method_and_host() -> None:
    registry = CollectorRegistry()
    collector = ClientCollector(registry)
    async with ScriptedServer() as server, open_transport(server.url) as transport:
        server.on("GET", "/version").answer(respond(200, {}), kube_status(404, "NotFound"))
        collector.add(transport, Endpoint(server.url).server)

        await transport.request("GET", "/version")
        with pytest.raises(NotFoundError):
            await transport.request("GET", "/version")

        host = server.url.removeprefix("http://")
        assert requests(registry, "200", "GET", host) == 1
        assert requests(registry, "404", "GET", host) == 1


def test_transports_to_one_host_share_its_series() -> None:
    registry = CollectorRegistry()
    collector = ClientCollector(registry)

    collector.add(Counted({("200", "GET"): 2, ("<error>", "PUT"): 1}), "https://api.example:6443")
    collector.add(Counted({("200", "GET"): 40}), "https://api.example:6443/prefix")
    collector.add(Counted({("200", "GET"): 500}), "https://[::1]:6443")

    assert requests(registry, "200", "GET", "api.example:6443") == 42
    assert requests(registry, "<error>", "PUT", "api.example:6443") == 1
    assert requests(registry, "200", "GET", "[::1]:6443") == 500


def test_a_password_in_an_address_is_not_shown() -> None:
    registry = CollectorRegistry()

    ClientCollector(registry).add(Counted({("200", "GET"): 1}), "https://user:secret@api.example")

    assert requests(registry, "200", "GET", "api.example") == 1
