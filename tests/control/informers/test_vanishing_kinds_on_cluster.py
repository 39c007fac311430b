"""Informers of custom resources whose definition comes and goes."""

import asyncio
import http
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from gpuruntime.aio.backoff import BackoffSchedule
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.reflector import ReflectorSettings
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.forms import dynamic
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.testing import ClusterAccess, RefusedError
from gpuruntime.testing.faults import CutAfterEvents, DropRequests
from tests.control.scenes import (
    await_served,
    eventually,
    eventually_on_server,
    held_up_by,
    open_transport,
    proxied,
    running,
    watch,
)

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
IMPATIENT = BackoffSchedule(base=0.01, factor=2, cap=0.1, reset=120)


@frozen
class Widgets:
    """A kind of this test alone."""

    cluster: ClusterAccess
    namespace: str

    @property
    def kind(self) -> ResourceKind:
        return ResourceKind(f"{self.namespace}.example.org", "v1", "Widget", "widgets", namespaced=True)

    def install(self) -> None:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"kind": "Widget", "plural": "widgets"}
        spec = {"group": self.kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
        self.cluster.admin().create(CRDS, {"metadata": {"name": self._definition}, "spec": spec})
        self.cluster.kubectl("wait", f"crd/{self._definition}", "--for=condition=Established", "--timeout=30s")
        await_served(self.cluster.admin(), self.kind.path(None))

    def remove(self, *, wait: bool = True) -> None:
        wanted = ("--ignore-not-found", f"--wait={json.dumps(wait)}")
        self.cluster.kubectl("delete", f"crd/{self._definition}", *wanted)

    def are_served(self) -> bool:
        try:
            self.cluster.admin().get(self.kind.path(None))
        except RefusedError as error:
            return error.status != http.HTTPStatus.NOT_FOUND
        return True

    def create(self, name: str) -> None:
        widget = {"apiVersion": self.kind.api_version, "kind": "Widget", "metadata": {"name": name}}
        self.cluster.admin().create(self.kind.path(self.namespace), widget)

    @property
    def _definition(self) -> str:
        return f"widgets.{self.kind.group}"


@pytest.fixture
def widgets(kube_cluster: ClusterAccess, kube_namespace: str) -> Iterator[Widgets]:
    widgets = Widgets(kube_cluster, kube_namespace)
    yield widgets
    widgets.remove(wait=False)


async def test_a_kind_may_appear_vanish_and_come_back(widgets: Widgets) -> None:
    async with open_transport(widgets.cluster) as transport:
        cache = Cache(transport)
        informer = cache.informer(dynamic(widgets.kind))
        witness = await watch(informer)
        async with running(cache):
            await held_up_by(cache, "404")

            await asyncio.to_thread(widgets.install)
            await informer.synced()
            # Seen by the watch: it is open when the kind goes.
            await asyncio.to_thread(widgets.create, "first")
            await witness.until(lambda changes: ("added", "first") in changes)
            await asyncio.to_thread(widgets.remove)
            await witness.until(lambda changes: ("deleted", "first") in changes)
            await asyncio.to_thread(widgets.install)
            await asyncio.to_thread(widgets.create, "second")
            await witness.until(lambda changes: ("added", "second") in changes)

            assert [key.name for key in informer.store] == ["second"]


async def test_a_kind_that_vanished_unseen_stays_known_until_it_is_back_and_is_compared_then(
    widgets: Widgets, tmp_path: Path
) -> None:
    await asyncio.to_thread(widgets.install)
    await asyncio.to_thread(widgets.create, "first")
    async with (
        proxied(widgets.cluster, tmp_path) as (proxy, credentials),
        Transport(credentials, user_agent="tests") as transport,
    ):
        cache = Cache(transport, settings=ReflectorSettings(backoff=IMPATIENT))
        informer = cache.informer(dynamic(widgets.kind))
        witness = await watch(informer)
        async with running(cache):
            await informer.synced()

            with proxy.inject(DropRequests(), watch=True), proxy.inject(CutAfterEvents(0), watch=True):
                await asyncio.to_thread(widgets.remove)
                await eventually_on_server(lambda: not widgets.are_served())
            await eventually(lambda: isinstance(informer.health[0].last_error, NotFoundError))
            assert [key.name for key in informer.store] == ["first"]
            await asyncio.to_thread(widgets.install)
            await asyncio.to_thread(widgets.create, "second")
            await witness.until(lambda changes: ("added", "second") in changes)
            await eventually(lambda: informer.health[0].relists == {"start": 1, "vanished": 1})

            assert witness.changes == [("added", "first"), ("deleted", "first"), ("added", "second")]
