"""Controllers of one sentence on a real API server: what they watch, write, refuse and need."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from gpuruntime.control import (
    OFFLINE_CREDENTIALS,
    Channel,
    Context,
    ControllerOptions,
    Election,
    Manager,
    ManagerOptions,
    Result,
    by_label,
    compact,
    generation_changed,
)
from gpuruntime.kube import dynamic, from_kubeconfig
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.meta import DynamicObject, FrozenDict, ObjectKey, ObjectMeta
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.permissions import granted_account, usage
from tests.control.scenes import LONG_LEASE, eventually, eventually_on_server, managing
from tests.control.widgets import Widget, WidgetStatus, create_widget, install_widgets

MAPS = "/api/v1/namespaces/{}/configmaps"
FINALIZER = "builder.example.org/clean"


@pytest.fixture
def namespace(kube_cluster: ClusterAccess, kube_namespace: str) -> str:
    """A namespace of a cluster that knows Widgets."""
    install_widgets(kube_cluster)
    return kube_namespace


def make(access: ClusterAccess, **options: object) -> Manager:
    return Manager(from_kubeconfig(access.kubeconfig), ManagerOptions("builder", **options))  # type: ignore[arg-type]  # few


def page_of(widget: Widget) -> ConfigMap:
    return ConfigMap(ObjectMeta(name=widget.metadata.name), data=FrozenDict(size=str(widget.spec.size)))


async def keep_page(widget: Widget, ctx: Context) -> Result:
    """A widget of size 0 has no map, any other has one."""
    if widget.spec.size:
        outcome = await ctx.apply(page_of(widget))
        if outcome.result != "unchanged":
            ctx.record("Normal", "Resized", f"size {widget.spec.size}")
    else:
        await ctx.delete(page_of(widget))
    await ctx.update_status(WidgetStatus(f"size {widget.spec.size}"))
    return Result.done()


def build(credentials: Credentials, namespace: str) -> Manager:
    manager = Manager(
        credentials, ManagerOptions("builder", election=Election(namespace, "builder", timing=LONG_LEASE), grace=5.0)
    )
    builder = manager.controller(Widget, namespaces=[namespace]).owns(ConfigMap, deletes=True)
    builder.updates_status().records_events().reconcile(keep_page)
    return manager


def sizes(access: ClusterAccess, namespace: str) -> dict[str, str]:
    items = access.admin().get(MAPS.format(namespace))["items"]
    return {item["metadata"]["name"]: item["data"]["size"] for item in items if "size" in item.get("data", {})}


async def resize(access: ClusterAccess, namespace: str, size: int) -> None:
    await asyncio.to_thread(access.admin().merge, Widget.KIND.path(namespace, "one"), {"spec": {"size": size}})


def phase(access: ClusterAccess, namespace: str) -> str:
    status = access.admin().get(Widget.KIND.path(namespace, "one")).get("status") or {}
    return str(status.get("phase", ""))


def is_gone(access: ClusterAccess, namespace: str) -> bool:
    return not access.admin().get(Widget.KIND.path(namespace))["items"]


async def test_one_sentence_uses_exactly_the_permissions_that_follow_from_it(
    kube_cluster: ClusterAccess, kube_audit: AuditLog, namespace: str, tmp_path: Path
) -> None:
    permissions = build(OFFLINE_CREDENTIALS, namespace).permissions
    create_widget(kube_cluster, namespace)

    with granted_account(kube_cluster, permissions, namespace=namespace, directory=tmp_path) as account:
        with kube_audit.recording() as seen:
            async with managing(build(from_kubeconfig(account.kubeconfig), namespace)):
                for size in (1, 2, 0):
                    await resize(kube_cluster, namespace, size)
                    await eventually_on_server(lambda size=size: phase(kube_cluster, namespace) == f"size {size}")  # type: ignore[misc]  # bound
        found = usage(permissions, seen.requests, user=account.username)

    assert found.is_exact, found
    assert sizes(kube_cluster, namespace) == {}


async def test_a_child_has_owner_field_manager_and_namespace_and_is_mended_when_it_is_changed_or_deleted(
    kube_cluster: ClusterAccess, namespace: str
) -> None:
    create_widget(kube_cluster, namespace)
    admin, path = kube_cluster.admin(), f"{MAPS.format(namespace)}/one"

    async with managing(build(from_kubeconfig(kube_cluster.kubeconfig), namespace)):
        await eventually_on_server(lambda: sizes(kube_cluster, namespace) == {"one": "1"})
        made = await asyncio.to_thread(admin.get, path)
        await asyncio.to_thread(admin.merge, path, {"data": {"size": "9"}})
        await eventually_on_server(lambda: sizes(kube_cluster, namespace) == {"one": "1"})
        await asyncio.to_thread(admin.delete, path)
        await eventually_on_server(lambda: sizes(kube_cluster, namespace) == {"one": "1"})

    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Widget", "one", True)
    assert "builder/owner-uid" in made["metadata"]["annotations"]


async def test_a_second_run_of_an_unchanged_object_writes_nothing(
    kube_cluster: ClusterAccess, kube_audit: AuditLog, namespace: str
) -> None:
    create_widget(kube_cluster, namespace)
    manager, again = make(kube_cluster), Channel[ObjectKey]()
    builder = manager.controller(Widget, namespaces=[namespace]).owns(ConfigMap, deletes=True).source(again)
    controller = builder.updates_status().records_events().reconcile(keep_page)

    async with managing(manager):
        await eventually(lambda: controller.counters.results["success"] > 0 and not len(controller.queue))
        await eventually_on_server(lambda: phase(kube_cluster, namespace) == "size 1")
        # The event of the first run is sent beside it.
        await eventually(lambda: manager.recorder.counters.sent == 1)
        runs = controller.counters.results["success"]
        with kube_audit.recording() as seen:
            again.send(ObjectKey(namespace, "one"))
            await eventually(lambda: controller.counters.results["success"] > runs)

    ours = [request for request in seen.requests if request.namespace == namespace and "builder" in request.user_agent]
    assert [request for request in ours if request.verb not in {"get", "list", "watch"}] == []


async def undeclared(access: ClusterAccess, namespace: str, caplog: pytest.LogCaptureFixture, manager: Manager) -> str:
    """What the log says about a run that uses what was not declared; it is not retried."""
    create_widget(access, namespace)
    (controller,) = manager._controllers
    async with managing(manager):
        await eventually(lambda: controller.counters.terminal_errors > 0)
    assert controller.counters.errors == 1
    return str([vars(record).get("error") for record in caplog.records])


async def apply_page(widget: Widget, ctx: Context) -> Result:
    await ctx.apply(page_of(widget))
    return Result.done()


async def test_a_child_that_is_not_owned_is_refused_with_what_to_add(
    kube_cluster: ClusterAccess, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    manager = make(kube_cluster)
    manager.controller(Widget, namespaces=[namespace]).reads(ConfigMap).reconcile(apply_page)

    said = await undeclared(kube_cluster, namespace, caplog, manager)

    assert ".owns(ConfigMap)" in said
    assert sizes(kube_cluster, namespace) == {}


async def test_a_child_that_its_cache_would_not_show_is_refused(
    kube_cluster: ClusterAccess, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    manager = make(kube_cluster)
    manager.controller(Widget, namespaces=[namespace]).owns(ConfigMap, labels="app=widget").reconcile(apply_page)

    said = await undeclared(kube_cluster, namespace, caplog, manager)

    assert "'app=widget'" in said
    assert sizes(kube_cluster, namespace) == {}


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("status", ".updates_status()"),
        ("event", ".records_events()"),
        ("delete", ".owns(ConfigMap, deletes=True)"),
        ("get", ".reads(Secret)"),
        ("form", "another form"),
        ("owned", ".owns(Secret)"),
        ("elsewhere", "ConfigMap default/page"),
    ],
)
async def test_what_is_not_declared_is_refused_with_what_to_add(
    kube_cluster: ClusterAccess, namespace: str, caplog: pytest.LogCaptureFixture, call: str, named: str
) -> None:
    async def misuse(widget: Widget, ctx: Context) -> Result:
        match call:
            case "status":
                await ctx.update_status(WidgetStatus("x"))
            case "event":
                ctx.record("Normal", "X", "x")
            case "delete":
                await ctx.delete(page_of(widget))
            case "get":
                ctx.get(Secret, "x")
            case "form":
                ctx.get(compact(ConfigMap), "x")
            case "elsewhere":
                await ctx.apply(ConfigMap(ObjectMeta(name="page", namespace="default")))
            case _:
                ctx.owned(Secret)
        return Result.done()

    manager = make(kube_cluster)
    manager.controller(Widget, namespaces=[namespace]).owns(ConfigMap).reconcile(misuse)

    assert named in await undeclared(kube_cluster, namespace, caplog, manager)


async def test_a_finalizer_is_there_before_the_reconciler_runs_and_goes_after_the_cleanup(
    kube_cluster: ClusterAccess, namespace: str
) -> None:
    story: list[str] = []

    async def reconcile(widget: Widget, _ctx: Context) -> Result:
        story.append(f"reconciled with {widget.metadata.finalizers[0]}")
        return Result.done()

    async def clean_up(_widget: Widget, ctx: Context) -> None:
        story.append("cleaned up")
        await ctx.update_status(WidgetStatus("leaving"))
        if story.count("cleaned up") == 1:
            raise RuntimeError("not yet")

    manager = make(kube_cluster)
    builder = manager.controller(Widget, namespaces=[namespace], when=generation_changed()).updates_status()
    builder.finalizer(FINALIZER, clean_up).reconcile(reconcile)
    create_widget(kube_cluster, namespace)

    async with managing(manager):
        await eventually(lambda: bool(story))
        await asyncio.to_thread(kube_cluster.admin().delete, Widget.KIND.path(namespace, "one"))
        await eventually_on_server(lambda: is_gone(kube_cluster, namespace))

    assert story == [f"reconciled with {FINALIZER}", "cleaned up", "cleaned up"]


async def test_a_reconciler_of_objects_never_sees_one_that_is_being_deleted_and_one_of_keys_does(
    kube_cluster: ClusterAccess, namespace: str
) -> None:
    objects: list[bool] = []
    keys: list[str] = []

    async def of_objects(widget: Widget, _ctx: Context) -> Result:
        objects.append(widget.metadata.deletion_timestamp is None)
        return Result.done()

    async def of_keys(key: ObjectKey, ctx: Context) -> Result:
        widget = ctx.get(Widget, key.name)
        keys.append("gone" if widget is None else "going" if widget.metadata.deletion_timestamp else "there")
        if widget is not None:
            await ctx.of(widget).update_status(WidgetStatus(keys[-1]))
        return Result.done()

    manager = make(kube_cluster)
    manager.controller(Widget, name="objects", namespaces=[namespace]).reconcile(of_objects)
    manager.controller(Widget, name="keys", namespaces=[namespace]).updates_status().reconcile_keys(of_keys)
    create_widget(kube_cluster, namespace)
    path, admin = Widget.KIND.path(namespace, "one"), kube_cluster.admin()
    await asyncio.to_thread(admin.merge, path, {"metadata": {"finalizers": [FINALIZER]}})

    async with managing(manager):
        await eventually(lambda: "there" in keys)
        await asyncio.to_thread(admin.delete, path)
        await eventually_on_server(lambda: phase(kube_cluster, namespace) == "going")
        await asyncio.to_thread(admin.merge, path, {"metadata": {"finalizers": None}})
        await eventually(lambda: keys[-1] == "gone")

    assert objects
    assert all(objects)


async def test_watches_enqueue_what_the_mapper_returns_and_reads_enqueue_nothing(
    kube_cluster: ClusterAccess, namespace: str
) -> None:
    seen: list[tuple[str, int]] = []

    def widgets_of(secret: Secret) -> Iterable[ObjectKey]:
        return [ObjectKey(namespace, secret.metadata.labels["widget"])]

    async def reconcile(_widget: Widget, ctx: Context) -> Result:
        secret = ctx.get(Secret, "key")
        maps = ctx.store(ConfigMap).list(where={"label:widget": "one"}).items
        seen.append(("" if secret is None else secret.data["a"], len(maps)))
        return Result.done()

    manager = make(kube_cluster)
    builder = manager.controller(Widget, namespaces=[namespace], when=generation_changed())
    builder.watches(Secret, widgets_of, labels="widget").reads(ConfigMap, indexes=[by_label("widget")]).reconcile(
        reconcile
    )
    create_widget(kube_cluster, namespace)
    admin = kube_cluster.admin()
    labels = {"labels": {"widget": "one"}}

    async with managing(manager):
        await eventually(lambda: seen == [("", 0)])
        await asyncio.to_thread(admin.create, MAPS.format(namespace), {"metadata": {"name": "m", **labels}})
        # The watches are independent: the secret could be seen before the map.
        await eventually(lambda: any(ObjectKey(namespace, "m") in known.store for known in manager.cache.informers))
        secret = {"metadata": {"name": "key", **labels}, "data": {"a": "MQ=="}}
        await asyncio.to_thread(admin.create, f"/api/v1/namespaces/{namespace}/secrets", secret)
        await eventually(lambda: len(seen) > 1)

    assert seen == [("", 0), ("MQ==", 1)]


async def test_owned_lists_the_children_of_the_object_and_no_others(
    kube_cluster: ClusterAccess, namespace: str
) -> None:
    form = dynamic(ConfigMap.KIND)
    names: dict[str, list[str]] = {}

    async def reconcile(widget: Widget, ctx: Context) -> Result:
        for number in range(widget.spec.size):
            name = f"{widget.metadata.name}-{number}"
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}
            await ctx.apply(DynamicObject.decode(ConfigMap.KIND, body))
        names[widget.metadata.name] = [child.metadata.name for child in ctx.owned(form)]
        return Result.after(0.1) if len(ctx.owned(form)) < widget.spec.size else Result.done()

    manager = make(kube_cluster)
    manager.controller(Widget, namespaces=[namespace]).owns(form).reconcile(reconcile)
    create_widget(kube_cluster, namespace, "one", 2)
    create_widget(kube_cluster, namespace, "two", 1)

    async with managing(manager):
        await eventually(lambda: names == {"one": ["one-0", "one-1"], "two": ["two-0"]})


async def test_a_controller_of_every_replica_runs_where_another_one_leads(
    kube_cluster: ClusterAccess, namespace: str
) -> None:
    runs: list[str] = []

    async def elected(_widget: Widget, _ctx: Context) -> Result:
        runs.append("elected")
        return Result.done()

    async def everywhere(_widget: Widget, _ctx: Context) -> Result:
        runs.append("everywhere")
        return Result.done()

    election = Election(namespace, "taken", timing=LONG_LEASE)
    holder = make(kube_cluster, election=election)
    manager = make(kube_cluster, election=Election(namespace, "taken", timing=LONG_LEASE))
    options = ControllerOptions(needs_leader_election=False)
    manager.controller(Widget, name="elected", namespaces=[namespace]).reconcile(elected)
    manager.controller(Widget, name="all", namespaces=[namespace], options=options).reconcile(everywhere)
    create_widget(kube_cluster, namespace)

    async with managing(holder):
        await eventually(lambda: holder.election is not None and holder.election.is_leader)
        async with managing(manager):
            await eventually(lambda: "everywhere" in runs)

    assert set(runs) == {"everywhere"}
