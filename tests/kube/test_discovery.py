"""Kinds are found on a real server, also those that come later, and on servers of old."""

import asyncio
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.kube import (
    Client,
    Credentials,
    Discovery,
    Endpoint,
    NotFoundError,
    Response,
    Transport,
    UnavailableError,
    dynamic,
)
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Namespace
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta import DynamicObject, ResourceKind
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.virtual_time import run_virtual

if TYPE_CHECKING:
    from tests.kube.conftest import Serve, Tokens, TransportTo

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Widgets:
    """The definition of a kind, in a group of the test's own."""

    def __init__(self, cluster: ClusterAccess, group: str) -> None:
        self._cluster = cluster
        self.group = group
        self.name = f"widgets.{group}"

    def install(self, scope: str = "Namespaced") -> None:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        versions = [
            {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
            for name in ("v1", "v2alpha1")
        ]
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
        spec = {"group": self.group, "scope": scope, "names": names, "versions": versions}
        self._cluster.admin().create(
            DEFINITIONS,
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": self.name},
                "spec": spec,
            },
        )
        self._cluster.kubectl("wait", f"crd/{self.name}", "--for=condition=Established", "--timeout=30s")

    def remove(self) -> None:
        self._cluster.kubectl("delete", f"crd/{self.name}", "--ignore-not-found", "--wait=true")


@pytest.fixture
def widgets(kube_cluster: ClusterAccess, kube_namespace: str) -> Iterator[Widgets]:
    definition = Widgets(kube_cluster, f"{kube_namespace}.example.org")
    yield definition
    definition.remove()


async def eventually(ask: Callable[[], Any], matches: Callable[[Any], bool] = bool) -> Any:
    """The server publishes a definition some time after it says that it is established."""
    async with asyncio.timeout(30):
        while True:
            try:
                if matches(found := await ask()):
                    return found
            except NotFoundError:
                await asyncio.sleep(0)


async def published(transport: Transport, widgets: Widgets, *, namespaced: bool = True) -> None:
    """Wait until both versions are: the server publishes each by itself, in any order."""
    fresh = Discovery(transport, interval=0.05)

    async def read(kind: ResourceKind) -> ResourceKind:
        fresh.forget(kind)
        return await fresh.kind_of(kind.group, kind.kind, kind.version)

    for version in ("v1", "v2alpha1"):
        expected = ResourceKind(widgets.group, version, "Widget", "widgets", namespaced=namespaced)
        await eventually(partial(read, expected), partial(operator.eq, expected))


async def no_longer_served(client: Client, kind: ResourceKind) -> None:
    """The server serves a kind for a moment after its definition is gone."""
    async with asyncio.timeout(30):
        while True:
            try:
                await client.list(dynamic(kind))
            except NotFoundError:
                return


async def test_built_in_kinds_are_what_their_types_say(transport: Transport) -> None:
    discovery = Discovery(transport)

    assert await discovery.kind_of("", "Pod") == Pod.KIND
    assert await discovery.kind_of("", "Namespace", "v1") == Namespace.KIND
    assert await discovery.kind_of_plural("apps", "deployments") == Deployment.KIND
    assert transport.counts == {("200", "GET"): 2}


async def test_a_kind_that_appears_later_is_found(transport: Transport, client: Client, widgets: Widgets) -> None:
    discovery = Discovery(transport, interval=0.05)
    with pytest.raises(NotFoundError, match=f"Widget .*{widgets.group}"):
        await discovery.kind_of(widgets.group, "Widget")

    widgets.install()
    await published(transport, widgets)
    kind = await eventually(lambda: discovery.kind_of(widgets.group, "Widget"))
    older = await discovery.kind_of_plural(widgets.group, "widgets", "v2alpha1")
    body = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"size": 1}}
    made = await client.create(DynamicObject.decode(kind, body))
    listed = await client.list(dynamic(older), "default")

    assert kind == ResourceKind(widgets.group, "v1", "Widget", "widgets", namespaced=True)
    assert [item.metadata.uid for item in listed.items] == [made.metadata.uid]


async def test_a_kind_that_was_made_anew_is_seen_as_it_is_once_the_old_one_is_forgotten(
    transport: Transport, client: Client, widgets: Widgets
) -> None:
    discovery = Discovery(transport, interval=0.05)
    widgets.install()
    await published(transport, widgets)
    old = await eventually(lambda: discovery.kind_of(widgets.group, "Widget"))

    widgets.remove()
    await no_longer_served(client, old)
    widgets.install("Cluster")
    await published(transport, widgets, namespaced=False)

    async def ask() -> ResourceKind:
        discovery.forget(old)
        return await discovery.kind_of(widgets.group, "Widget")

    new = await eventually(ask, lambda kind: kind != old)
    assert new == ResourceKind(widgets.group, "v1", "Widget", "widgets", namespaced=False)
    made = await client.create(DynamicObject.decode(new, {"metadata": {"name": "a"}}))
    assert made.metadata.namespace == ""


class OldServer:
    """Speaks the discovery of servers before 1.26; one of its groups is broken."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        self.paths.append(request.path)
        documents: dict[str, Any] = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/api/v1": {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]},
            "/apis": {
                "kind": "APIGroupList",
                "groups": [
                    {"name": "broken.org", "versions": [{"version": "v1"}]},
                    {
                        "name": "apps",
                        "versions": [{"version": "v1beta1"}, {"version": "v1"}],
                        "preferredVersion": {"version": "v1"},
                    },
                ],
            },
            "/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]},
            "/apis/apps/v1beta1": {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]},
        }
        document = documents.get(request.path)
        return web.json_response(document or {}, status=503 if document is None else 200)


async def test_a_server_of_old_is_asked_group_by_group(serve: "Serve", transport_to: "TransportTo") -> None:
    server = OldServer()
    discovery = Discovery(transport_to(await serve(server)))

    found = await discovery.kind_of("apps", "Deployment")

    assert found == Deployment.KIND
    assert await discovery.kind_of("", "Pod") == Pod.KIND
    assert (await discovery.kind_of("apps", "Deployment", "v1beta1")).version == "v1beta1"
    assert set(server.paths) == {
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps/v1",
        "/apis/apps/v1beta1",
        "/apis/broken.org/v1",
    }


class EmptyServer(Transport):
    """Has no kinds, and notes when it is asked."""

    def __init__(self, credentials: Credentials) -> None:
        super().__init__(credentials, user_agent="test")
        self.asked: list[tuple[str, float]] = []

    async def send(self, request: Request) -> Response:
        self.asked.append((request.path, asyncio.get_running_loop().time()))
        await asyncio.sleep(0.25)
        body = b'{"kind": "APIGroupDiscoveryList", "items": []}'
        return Response(200, CIMultiDictProxy(CIMultiDict()), body, str(request))


def test_all_who_miss_a_kind_share_one_refresh_a_second(tokens: type["Tokens"]) -> None:
    server = EmptyServer(tokens(Endpoint("http://unused")))
    discovery = Discovery(server)

    async def story() -> set[type[Any]]:
        outcomes: list[Any] = []
        for _ in range(3):
            asked = (discovery.kind_of("example.org", "Widget") for _ in range(20))
            outcomes += await asyncio.gather(*asked, return_exceptions=True)
        return {type(outcome) for outcome in outcomes}

    assert run_virtual(story()) == {NotFoundError}
    assert [start for path, start in server.asked if path == "/api"] == [0.0, 1.0, 2.0]


async def test_a_failed_refresh_is_raised_to_its_callers_and_not_cached(
    serve: "Serve", transport_to: "TransportTo"
) -> None:
    failing = True

    async def handler(_: web.BaseRequest) -> web.Response:
        if failing:
            return web.Response(status=503)
        resource = {"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced"}
        group = {"metadata": {}, "versions": [{"version": "v1", "resources": [resource]}]}
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": [group]})

    discovery = Discovery(transport_to(await serve(handler)), interval=0.0)
    with pytest.raises(UnavailableError):
        await discovery.kind_of("", "Pod")
    failing = False

    assert await discovery.kind_of("", "Pod") == Pod.KIND
