"""Informers on a healthy API server."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from attrs import evolve

from gpuruntime.control.informers.cache import Cache, CacheError
from gpuruntime.control.informers.indexes import by_field, by_label
from gpuruntime.control.informers.reflector import ReflectorSettings
from gpuruntime.control.informers.storage import Storage, compact, eager, projected
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.forms import dynamic, metadata_only
from gpuruntime.kube.transport.middleware import Middleware
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.testing import AdminClient, ClusterAccess
from gpuruntime.testing.plugin import AccountFactory
from tests.control.scenes import eventually, held_up_by, open_transport, running, watch


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def create_map(admin: AdminClient, namespace: str, name: str, **body: Any) -> Any:
    return admin.create(maps(namespace), {"metadata": {"name": name, **body.pop("metadata", {})}, **body})


class WithoutStreamedLists(Middleware):
    """Has streamed lists refused, as by a server that does not know them."""

    def stream(self, request: Request, *, idle_timeout: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        params = dict(request.params)
        if "resourceVersionMatch" in params:
            request = evolve(request, params={**params, "resourceVersionMatch": "bogus"})
        return super().stream(request, idle_timeout=idle_timeout)


def await_root_certificate(cluster: ClusterAccess, namespace: str) -> None:
    """Wait for the map that a controller puts into every namespace, some time after its creation."""
    cluster.kubectl("wait", "configmap/kube-root-ca.crt", "--for=create", "--timeout=60s", "-n", namespace)


@pytest.mark.parametrize("storage", [eager(ConfigMap), compact(ConfigMap)], ids=["eager", "compact"])
async def test_a_store_follows_creations_changes_and_deletions(
    kube_cluster: ClusterAccess, kube_namespace: str, storage: Storage[ConfigMap]
) -> None:
    admin = kube_cluster.admin()
    create_map(admin, kube_namespace, "early", data={"a": "1"})
    async with open_transport(kube_cluster) as transport:
        cache = Cache(transport)
        informer = cache.informer(storage, namespaces=[kube_namespace], indexes=[by_field("data.a")])
        witness = await watch(informer)
        async with running(cache):
            await informer.synced()
            assert ("added", "early") in witness.changes

            create_map(admin, kube_namespace, "late", data={"a": "1"})
            admin.merge(f"{maps(kube_namespace)}/early", {"data": {"a": "2"}})
            admin.delete(f"{maps(kube_namespace)}/late")
            await witness.until(lambda changes: ("deleted", "late") in changes)

            ours = [change for change in witness.changes if change[1] != "kube-root-ca.crt"]
            assert ours == [("added", "early"), ("added", "late"), ("modified", "early"), ("deleted", "late")]
            assert [item.metadata.name for item in informer.store.list(where={"data.a": "2"}).items] == ["early"]
            assert informer.store.list(where={"data.a": "1"}).items == ()
            assert informer.health[0].relists == {"start": 1}


async def test_equal_requests_share_one_watch_and_late_handlers_get_the_existing_objects(
    kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    create_map(kube_cluster.admin(), kube_namespace, "there")
    async with open_transport(kube_cluster) as transport:
        cache = Cache(transport)
        async with running(cache):
            first = cache.informer(ConfigMap, namespaces=[kube_namespace])
            await first.synced()
            second = cache.informer(eager(ConfigMap), namespaces=[kube_namespace, kube_namespace])
            late = await watch(second)

            assert first is second
            assert ("added", "there") in late.changes
            assert first.health[0].requests == 2
            with pytest.raises(CacheError, match="label:app"):
                cache.informer(ConfigMap, namespaces=[kube_namespace], indexes=[by_label("app")])


async def test_selectors_namespaces_metadata_and_projections_narrow_what_is_kept(
    kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    admin = kube_cluster.admin()
    create_map(admin, kube_namespace, "web", data={"big": "x" * 1000}, metadata={"labels": {"app": "web"}})
    create_map(admin, kube_namespace, "db", metadata={"labels": {"app": "db"}})
    kind = ConfigMap.KIND
    async with open_transport(kube_cluster) as transport:
        cache = Cache(transport)
        scope: dict[str, Any] = {"namespaces": [kube_namespace]}
        labelled = cache.informer(ConfigMap, labels="app in (web)", **scope)
        named = cache.informer(dynamic(kind), fields="metadata.name=db", **scope)
        partial = cache.informer(metadata_only(kind), **scope)
        sizes = cache.informer(projected(kind, lambda raw: sum(map(len, raw.get("data", {}).values()))), **scope)
        everywhere = cache.informer(metadata_only(kind))
        async with running(cache):
            await cache.synced(within=30)

            assert [key.name for key in labelled.store] == ["web"]
            assert [key.name for key in named.store] == ["db"]
            web = partial.store.get(ObjectKey(kube_namespace, "web"))
            assert web is not None
            assert web.metadata.labels == {"app": "web"}
            assert partial.store.size < labelled.store.size + 1000
            assert sizes.store.get(ObjectKey(kube_namespace, "web")) == 1000
            assert {"kube-system", kube_namespace} <= {key.namespace for key in everywhere.store}


async def test_a_state_is_the_same_in_pages_and_streamed(kube_cluster: ClusterAccess, kube_namespace: str) -> None:
    admin, kind = kube_cluster.admin(), ConfigMap.KIND
    await_root_certificate(kube_cluster, kube_namespace)
    for number in range(7):
        create_map(admin, kube_namespace, f"map-{number}", data={"a": str(number)})

    async def state(transport: Transport, settings: ReflectorSettings) -> tuple[list[Any], list[int]]:
        cache = Cache(transport, settings=settings)
        forms: list[Storage[Any]] = [
            eager(ConfigMap),
            compact(ConfigMap),
            eager(dynamic(kind)),
            eager(metadata_only(kind)),
            projected(kind, lambda raw: {name: raw.get(name) for name in ("apiVersion", "kind", "data")}),
        ]
        informers = [cache.informer(form, namespaces=[kube_namespace]) for form in forms]
        async with running(cache):
            await cache.synced(within=30)
            contents = [informer.store.list().items for informer in informers]
            return contents, [informer.health[0].requests for informer in informers]

    async with open_transport(kube_cluster) as transport:
        pages, asked_in_pages = await state(transport, ReflectorSettings(page_size=3))
        stream, asked_in_streams = await state(transport, ReflectorSettings(stream_lists=True))

    assert [len(items) for items in pages] == [8] * 5
    assert pages == stream
    # Three pages and a watch, or one stream for all of it.
    assert (asked_in_pages, asked_in_streams) == ([4] * 5, [1] * 5)


async def test_where_streamed_lists_are_refused_a_collection_is_listed_in_pages(
    kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    admin = kube_cluster.admin()
    await_root_certificate(kube_cluster, kube_namespace)
    for number in range(7):
        create_map(admin, kube_namespace, f"map-{number}")
    async with open_transport(kube_cluster) as transport:
        settings = ReflectorSettings(page_size=3, stream_lists=True)
        cache = Cache(WithoutStreamedLists(transport), settings=settings)
        informer = cache.informer(ConfigMap, namespaces=[kube_namespace])
        witness = await watch(informer)
        async with running(cache):
            await informer.synced()
            create_map(admin, kube_namespace, "later")
            await witness.until(lambda changes: ("added", "later") in changes)

            assert len(informer.store) == 9
            # One refused stream, three pages, one watch.
            assert informer.health[0].requests == 5


async def test_an_account_without_rights_is_named_as_what_holds_the_cache_up_and_recovers_when_it_gets_them(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_account: AccountFactory
) -> None:
    account = kube_account()
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{kube_namespace}"
    async with Transport(from_kubeconfig(account.kubeconfig), user_agent="tests") as transport:
        cache = Cache(transport)
        informer = cache.informer(ConfigMap, namespaces=[kube_namespace])
        async with running(cache):
            await held_up_by(cache, r"v1 ConfigMap \(.*403 Forbidden")

            admin = kube_cluster.admin()
            rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
            admin.create(f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
            subject = {"kind": "ServiceAccount", "name": account.name, "namespace": kube_namespace}
            binding = {"metadata": {"name": "reader"}, "roleRef": reference, "subjects": [subject]}
            admin.create(f"{rbac}/rolebindings", binding)
            admin.create(f"/api/v1/namespaces/{kube_namespace}/configmaps", {"metadata": {"name": "one"}})
            await eventually(lambda: ObjectKey(kube_namespace, "one") in informer.store)
