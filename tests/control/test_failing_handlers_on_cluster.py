"""A manager whose trigger, predicate or index fails: not ready, counted, and well again by itself."""

from collections.abc import Iterable
from typing import Any

import aiohttp
import pytest
from attrs import define

from gpuruntime.control.controllers.reconcile import Result, RunInfo
from gpuruntime.control.controllers.sources import Watch
from gpuruntime.control.controllers.triggers import enqueue_mapped, enqueue_object
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.indexes import Index
from gpuruntime.control.manager import Manager, ManagerOptions
from gpuruntime.control.serving.http_site import HttpAddress
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta import ObjectKey
from gpuruntime.testing import ClusterAccess
from tests.control.scenes import eventually, managing


@define
class Fragile:
    """A trigger's mapper, a predicate and an index at once, of which one fails as long as it is broken."""

    broken: str

    def _use(self, what: str) -> None:
        if self.broken == what:
            raise LookupError("the directory does not answer")

    def keys(self, obj: ConfigMap) -> Iterable[ObjectKey]:
        self._use("mapper")
        return [obj.key]

    def admits(self, _change: Change[Any]) -> bool:
        self._use("predicate")
        return True

    def values(self, _raw: Any) -> Iterable[str]:
        self._use("index")
        return ["any"]


class Noting:
    def __init__(self) -> None:
        self.names: set[str] = set()

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        self.names.add(key.name)
        return Result.done()


async def page(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url) as response:
        return response.status, await response.text()


def value_of(metrics: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in metrics.splitlines() if line.startswith(name + "{"))


@pytest.mark.parametrize("broken", ["mapper", "predicate", "index"])
async def test_what_fails_shows_in_readyz_and_metrics_while_it_does_and_nothing_is_lost(
    kube_cluster: ClusterAccess, kube_namespace: str, broken: str
) -> None:
    kube_cluster.kubectl("create", "configmap", "page", "-n", kube_namespace)
    fragile, noting = Fragile(broken), Noting()
    manager = Manager(from_kubeconfig(kube_cluster.kubeconfig), ManagerOptions("pages", http=HttpAddress()))
    maps = manager.cache.informer(ConfigMap, namespaces=[kube_namespace], indexes=[Index("any", fragile.values)])
    manager.add_controller("pages", noting, [Watch(maps, enqueue_mapped(fragile.keys), [fragile.admits])])
    async with managing(manager), aiohttp.ClientSession() as session:
        await manager.sites[0].listening()
        url = manager.sites[0].bound.url
        await eventually(lambda: maps.handler_failures > 0 or maps.store.quarantined > 0)

        status, reason = await page(session, f"{url}/readyz?verbose")
        metrics = (await page(session, f"{url}/metrics"))[1]
        assert (status, "LookupError: the directory does not answer" in reason) == (500, True)
        assert value_of(metrics, "gpuruntime_informer_retrying") >= 1
        if broken != "index":
            assert value_of(metrics, "gpuruntime_source_retrying") >= 1
            assert value_of(metrics, "gpuruntime_source_failures_total") >= 1

        fragile.broken = ""
        await eventually(lambda: "page" in noting.names)
        await eventually(lambda: not maps.retrying)
        assert (await page(session, f"{url}/readyz"))[0] == 200
        assert value_of((await page(session, f"{url}/metrics"))[1], "gpuruntime_informer_retrying") == 0


async def test_a_mapper_that_gives_no_keys_shows_in_readyz_with_what_to_return(
    kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    kube_cluster.kubectl("create", "configmap", "page", "-n", kube_namespace)
    manager = Manager(from_kubeconfig(kube_cluster.kubeconfig), ManagerOptions("pages"))
    maps = manager.cache.informer(ConfigMap, namespaces=[kube_namespace])
    good = Noting()
    manager.add_controller("bad", Noting(), [Watch(maps, enqueue_mapped(lambda obj: obj.key))])
    manager.add_controller("good", good, [Watch(maps, enqueue_object())])
    async with managing(manager):
        await eventually(lambda: "page" in good.names and maps.handler_failures > 0)
        verdicts = {verdict.name: verdict for verdict in await manager.observability.ready.run()}

    failed = [verdict.reason for verdict in verdicts.values() if verdict.status == "failed"]
    assert "controller bad fails on" in "".join(failed)
    assert "put a single key into a list" in "".join(failed)
