"""One sentence makes a controller: what is derived from it, and which mistakes it refuses."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any

import pytest
from attrs import evolve, frozen

from gpuruntime.control import (
    OFFLINE_CREDENTIALS,
    CacheError,
    Channel,
    Context,
    Controller,
    ControllerOptions,
    Election,
    Manager,
    ManagerOptions,
    Result,
    UndeclaredError,
    by_label,
    compact,
    generation_changed,
    projected,
)
from gpuruntime.control.permissions.declarations import allow
from gpuruntime.control.writing.status import write_status
from gpuruntime.kube import dynamic, metadata_only
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import ConfigMap, Secret, Service
from gpuruntime.kube.builtin.nodes import Node
from gpuruntime.meta import ObjectKey, ObjectMeta, ResourceKind, TypedObject
from tests.control.widgets import Widget, WidgetSpec, WidgetStatus


@frozen
class Gauge(TypedObject):
    """A kind whose objects have no status at first."""

    KIND = ResourceKind("builder.example.org", "v1", "Gauge", "gauges", namespaced=True)

    status: WidgetStatus | None = None


async def reconcile(_widget: Widget, _ctx: Context) -> Result:
    return Result.done()


async def reconcile_keys(_key: ObjectKey, _ctx: Context) -> Result:
    return Result.done()


async def clean_up(_widget: Widget, _ctx: Context) -> None:
    return None


async def with_one_argument(_widget: Widget) -> Result:
    return Result.done()


async def generate(_object: object) -> AsyncIterator[ObjectKey]:
    yield ObjectKey("a", "one")


def widgets_of(secret: Secret) -> Iterable[ObjectKey]:
    return [ObjectKey(secret.metadata.namespace, "one")]


def make(name: str = "builder") -> Manager:
    return Manager(OFFLINE_CREDENTIALS, ManagerOptions(name))


def built(build: Callable[[Manager], object]) -> Manager:
    """A manager after `build`, which needs a running loop."""

    async def story() -> Manager:
        manager = make()
        build(manager)
        return manager

    return asyncio.run(story())


def refusal(build: Callable[[Manager], object]) -> str:
    """What a builder refuses a call with; empty if it does not."""
    try:
        built(build)
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)
    return ""


def untyped(value: Any) -> Any:
    return value


def verbs(manager: Manager) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for permission in manager.permissions:
        found.setdefault(permission.resource, set()).add(permission.verb)
    return found


def test_six_kinds_are_six_words() -> None:
    kinds: list[str] = []

    def build(manager: Manager) -> None:
        manager.controller(Widget).owns(ConfigMap, Deployment, Service).watches(Secret, widgets_of).reads(
            Node
        ).reconcile(reconcile)
        kinds.extend(informer.scope.storage.kind.kind for informer in manager.cache.informers)

    built(build)

    assert kinds == ["Widget", "ConfigMap", "Deployment", "Service", "Secret", "Node"]


def test_permissions_follow_from_the_words_and_there_are_no_others() -> None:
    manager = built(
        lambda manager: (
            manager.controller(Widget)
            .owns(ConfigMap)
            .owns(Service, deletes=True)
            .owns(Secret, mode="apply")
            .reads(Node)
            .updates_status()
            .records_events()
            .finalizer("example.org/widget", clean_up)
            .permissions(allow(Deployment, "get", namespaces=()))
            .reconcile(reconcile)
        )
    )

    assert verbs(manager) == {
        "widgets": {"get", "list", "watch", "patch"},
        "widgets/status": {"patch"},
        "widgets/finalizers": {"update"},
        "configmaps": {"get", "list", "watch", "create", "update"},
        "services": {"get", "list", "watch", "create", "update", "delete"},
        "secrets": {"get", "list", "watch", "create", "patch"},
        "nodes": {"list", "watch"},
        "deployments": {"get"},
        "events": {"create", "patch"},
    }


def test_a_controller_that_only_looks_needs_no_write() -> None:
    manager = built(lambda manager: manager.controller(Widget).reads(ConfigMap).reconcile(reconcile))

    assert verbs(manager) == {"widgets": {"list", "watch"}, "configmaps": {"list", "watch"}}


def test_namespaces_hold_for_every_namespaced_kind_unless_it_has_its_own() -> None:
    manager = built(
        lambda manager: (
            manager.controller(Widget, namespaces=["red", "blue"])
            .owns(ConfigMap)
            .reads(Node)
            .reads(Secret, namespaces=["keys"])
            .reads(Service, namespaces=())
            .reconcile(reconcile)
        )
    )

    namespaces_of: dict[str, set[str]] = {}
    for permission in manager.permissions:
        namespaces_of.setdefault(permission.resource, set()).add(permission.namespace)
    assert namespaces_of == {
        "widgets": {"red", "blue"},
        "widgets/finalizers": {"red", "blue"},
        "configmaps": {"red", "blue"},
        "nodes": {""},
        "secrets": {"keys"},
        "services": {""},
    }


def test_namespaces_of_a_cluster_scoped_controller_are_those_of_its_children() -> None:
    manager = built(
        lambda manager: manager.controller(Node, namespaces=["red"]).owns(ConfigMap).reconcile(untyped(reconcile))
    )

    scopes = {informer.scope.storage.kind.kind: informer.scope.namespaces for informer in manager.cache.informers}
    assert scopes == {"Node": (), "ConfigMap": ("red",)}


def test_the_name_and_the_options_are_those_given_or_follow_from_the_kind() -> None:
    async def story() -> list[Controller[ObjectKey]]:
        manager, options = make(), ControllerOptions(concurrency=4)
        return [
            manager.controller(Widget).reconcile(reconcile),
            manager.controller(Widget, name="other", options=options).reconcile(reconcile),
            manager.controller(name="keys").watches(Secret, widgets_of).reconcile_keys(reconcile_keys),
        ]

    controllers = asyncio.run(story())

    assert [controller.name for controller in controllers] == ["widget", "other", "keys"]
    assert [controller.options.concurrency for controller in controllers] == [1, 4, 1]


def test_indexes_of_one_kind_are_merged_across_controllers() -> None:
    names: list[frozenset[str]] = []

    def build(manager: Manager) -> None:
        early = manager.cache.informer(ConfigMap, indexes=[by_label("a")])
        manager.controller(Widget).owns(ConfigMap, indexes=[by_label("b")]).reconcile(reconcile)
        manager.controller(Widget, name="other").reads(ConfigMap, indexes=[by_label("a"), by_label("c")]).reconcile(
            reconcile
        )
        names.append(early.index_names)

    built(build)

    assert names == [{"label:a", "label:b", "label:c", "controller"}]


async def test_an_index_is_refused_when_the_cache_runs() -> None:
    manager = make()
    manager.cache.informer(ConfigMap)
    running = asyncio.create_task(manager.cache.run())
    await asyncio.sleep(0)

    with pytest.raises(CacheError, match="label:a"):
        manager.cache.informer(ConfigMap, indexes=[by_label("a")])

    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (
            lambda m: m.controller(Widget).owns(ConfigMap).reads(compact(ConfigMap)),
            "controller 'widget' keeps ConfigMap",
        ),
        (
            lambda m: m.controller(Widget).owns(ConfigMap, labels="a=b").watches(ConfigMap, widgets_of),
            "controller 'widget' watches ConfigMap",
        ),
        (
            lambda m: m.controller(Widget).owns(metadata_only(ConfigMap.KIND)),
            ".watches(..., trigger=enqueue_owner(...))",
        ),
        (lambda m: m.controller(Widget).owns(projected(ConfigMap.KIND, str)), ".owns "),
        (
            lambda m: m.controller(Widget).owns(ConfigMap).owns(ConfigMap, deletes=True),
            "controller 'widget' owns ConfigMap",
        ),
        (lambda m: m.controller(Widget).watches(Secret), ".reads"),
        (lambda m: m.controller(Widget).watches(Secret, generation_changed), "mapper"),
        (lambda m: m.controller(Widget, when=untyped(generation_changed)), "generation_changed()"),
        (lambda m: m.controller(name="keys").owns(ConfigMap), "manager.controller(Kind)"),
        (lambda m: m.controller(untyped(None)), "manager.controller(Website)"),
        (lambda m: m.controller(untyped("Widget")), "informer"),
        (lambda m: m.controller(Widget).source(untyped(Secret)), "Watch"),
        (lambda m: m.controller(Widget).resync(0), ".resync, got 0"),
        (lambda m: m.controller(Widget).reconcile(untyped(Channel)), "(object, ctx), got Channel"),
        (
            lambda m: m.controller(Widget).finalizer("a.org/a", clean_up).finalizer("a.org/b", clean_up),
            "finalizer 'a.org/a'",
        ),
        (
            lambda m: m.controller(Widget).finalizer("a.org/a", clean_up).reconcile_keys(reconcile_keys),
            "with_finalizer",
        ),
        (lambda m: m.controller(projected(Widget.KIND, str)).reconcile(untyped(reconcile)), ".reconcile_keys"),
        (
            lambda m: (m.controller(Widget).reconcile(reconcile), m.controller(Widget).reconcile(reconcile)),
            "controller 'widget'",
        ),
        (
            lambda m: m.controller(Widget).reconcile(untyped(with_one_argument)),
            "(object, ctx), got with_one_argument(_widget)",
        ),
        (
            lambda m: m.controller(Widget).reconcile_keys(untyped(with_one_argument)),
            "(key, ctx), got with_one_argument",
        ),
        (
            lambda m: m.controller(Widget).reconcile(untyped(reconcile(untyped(None), untyped(None)))),
            "got a coroutine of reconcile",
        ),
        (lambda m: m.controller(Widget).reconcile(untyped(generate)), "got the generator generate"),
        (
            lambda m: m.controller(Widget).finalizer("example.org/a", untyped(with_one_argument)),
            "(object, ctx), got with_one_argument",
        ),
        (lambda m: m.controller(Widget).finalizer("example.org/a", untyped(None)), "(object, ctx), got None"),
        (lambda m: m.controller(Widget).finalizer("bucket", clean_up), "got 'bucket'"),
        (lambda m: m.controller(Widget).finalizer("A b/c", clean_up), "got 'A b/c'"),
        (lambda m: m.controller(Widget).watches(Secret, untyped(generate)), "mapper, got generate"),
        (
            lambda m: m.controller(Widget).watches(Secret, untyped(partial(with_one_argument))),
            "mapper, got functools.partial(",
        ),
        (lambda m: m.controller(Widget).watches(Secret, untyped(lambda _old, _new: [])), "got <lambda>(_old, _new)"),
        (lambda m: m.controller(Widget, when=untyped(lambda _old, _new: True)), "got <lambda>(_old, _new)"),
        (lambda m: m.controller(Widget, namespaces="shops"), "namespaces=['shops']"),
        (lambda m: m.controller(Widget).owns(ConfigMap, namespaces="shops"), "namespaces=['shops']"),
        (lambda m: m.cache.informer(Widget, namespaces="shops"), "namespaces, got 'shops'"),
        (
            lambda m: m.controller(Widget).owns(ConfigMap, labels=untyped({"app": "web", "tier": "a"})),
            "labels='app=web,tier=a'",
        ),
        (
            lambda m: m.controller(Widget, options=untyped({"concurrency": 2})),
            "options=ControllerOptions(...), got {'concurrency': 2}",
        ),
        (lambda m: m.controller(Widget).owns(untyped([ConfigMap])), "list"),
        (
            lambda m: m.controller(Widget).owns(ConfigMap, mode=untyped("aply")),
            "mode='replace' or mode='apply', got 'aply'",
        ),
        (lambda m: m.controller(Widget).owns(Node), "Widget cannot own a Node"),
        (lambda m: m.controller(Widget, namespaces=["a"]).owns(ConfigMap, namespaces=["b"]), "namespaces (b)"),
        (lambda m: m.controller(Secret).updates_status(), ".updates_status()"),
        (lambda m: m.controller(Widget).permissions(untyped("get")), """allow(Secret, "get"), got 'get'"""),
        (
            lambda m: m.controller(Widget).permissions(allow(Secret, untyped("read"))),
            "patch, delete, deletecollection, got 'read'",
        ),
        (lambda m: m.controller(Widget).resync(untyped("1h")), ".resync, got '1h'"),
        (lambda m: m.controller(make("other").cache.informer(Widget)), "informer of Widget belongs to another manager"),
        (
            lambda m: m.controller(m.cache.informer(Widget), labels="a=b"),
            "informer of Widget has namespaces and selectors",
        ),
    ],
)
def test_a_mistake_is_refused_with_what_to_do(build: Callable[[Manager], object], named: str) -> None:
    assert named in refusal(build)


@pytest.mark.parametrize(
    ("owner", "child", "named"),
    [
        (Widget, {"kind": "ConfigMap"}, "ctx.apply"),
        (Widget, None, "got None"),
        (Widget, ConfigMap, "got ConfigMap"),
        (Widget, [ConfigMap(ObjectMeta(name="a"))], "got a list"),
        (Widget, ConfigMap(ObjectMeta(name="a", namespace="blue")), "ConfigMap blue/a"),
        (Node, ConfigMap(ObjectMeta(name="a")), "ConfigMap a"),
    ],
)
async def test_a_child_that_cannot_be_one_is_refused_with_what_to_do(
    owner: Callable[[ObjectMeta], Widget | Node], child: Any, named: str
) -> None:
    obj = owner(ObjectMeta(name="one", namespace="red" if owner is Widget else "", uid="u"))
    ctx = Context(untyped(None), obj.key, untyped(None), obj)

    with pytest.raises((TypeError, ValueError, UndeclaredError)) as refused:
        await ctx.apply(child)

    assert named in str(refused.value)


@pytest.mark.parametrize("status", [WidgetSpec(), {"phase": "a"}, "a"])
async def test_a_status_of_another_type_than_the_kind_declares_is_refused(status: Any) -> None:
    gauge = Gauge(ObjectMeta(name="one", namespace="red", uid="u", resource_version="1"))

    with pytest.raises(TypeError, match=f"Gauge red/one, WidgetStatus, got {type(status).__name__}"):
        await write_status(untyped(None), gauge, status)


async def test_a_context_writes_nothing_after_its_run() -> None:
    kept: list[Context] = []

    async def keep(widget: Widget, ctx: Context) -> Result:
        kept.extend([ctx, ctx.of(widget)])
        return Result.done()

    manager = make()
    builder = manager.controller(Widget).owns(ConfigMap, deletes=True).updates_status().records_events()
    controller = builder.reconcile(keep)
    widget = Widget(ObjectMeta(name="one", namespace="red", uid="u"))
    store = untyped({widget.key: widget})
    await evolve(untyped(controller)._reconciler, store=store).reconcile(widget.key, untyped(None))

    for ctx in kept:
        for call in (ctx.apply, ctx.delete, ctx.update_status):
            with pytest.raises(RuntimeError, match=rf"ctx\.{call.__name__}"):
                await untyped(call)(None)
        with pytest.raises(RuntimeError, match=r"ctx\.record"):
            ctx.record("Normal", "Late", "late")


def test_a_builder_takes_nothing_after_its_reconciler() -> None:
    async def story() -> str:
        builder = make().controller(Widget)
        builder.reconcile(reconcile)
        with pytest.raises(RuntimeError) as refused:
            builder.owns(ConfigMap)
        return str(refused.value)

    assert "'widget'" in asyncio.run(story())


async def test_a_controller_without_a_reconciler_keeps_the_manager_from_running() -> None:
    manager = make()
    manager.controller(Widget).owns(ConfigMap)

    with pytest.raises(RuntimeError, match="'widget'"):
        await manager.run()
    with pytest.raises(RuntimeError, match="'widget'"):
        _ = manager.permissions


def test_one_kind_in_several_words_is_one_informer() -> None:
    manager = built(
        lambda manager: (
            manager.controller(ConfigMap)
            .owns(ConfigMap)
            .watches(ConfigMap, untyped(widgets_of))
            .reads(ConfigMap)
            .reconcile(untyped(reconcile))
        )
    )

    assert len(manager.cache.informers) == 1


def test_objects_without_a_class_are_owned_by_their_form() -> None:
    manager = built(lambda manager: manager.controller(Widget).owns(dynamic(ConfigMap.KIND)).reconcile(reconcile))

    assert verbs(manager)["configmaps"] == {"get", "list", "watch", "create", "update"}


def test_the_options_decide_whether_a_controller_needs_leader_election() -> None:
    async def story() -> list[bool]:
        manager = Manager(OFFLINE_CREDENTIALS, ManagerOptions("x", election=Election("a", "x")))
        everywhere = ControllerOptions(needs_leader_election=False)
        made = [
            manager.controller(Widget).reconcile(reconcile),
            manager.controller(Widget, name="all", options=everywhere).reconcile(reconcile),
        ]
        return [controller.options.needs_leader_election for controller in made]

    assert asyncio.run(story()) == [True, False]
