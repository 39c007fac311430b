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

    with pytest.raises(CacheError, match="runs without the index label:a: ask for it before the manager runs"):
        manager.cache.informer(ConfigMap, indexes=[by_label("a")])

    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda m: m.controller(Widget).owns(ConfigMap).reads(compact(ConfigMap)),
            "controller 'widget' keeps ConfigMap in two forms: pass the same class, form or storage each time",
        ),
        (
            lambda m: m.controller(Widget).owns(ConfigMap, labels="a=b").watches(ConfigMap, widgets_of),
            "controller 'widget' watches ConfigMap in two scopes: give it the same namespaces and selectors each time",
        ),
        (
            lambda m: m.controller(Widget).owns(metadata_only(ConfigMap.KIND)),
            ".owns needs whole objects; to watch only, use .watches(..., trigger=enqueue_owner(...))",
        ),
        (lambda m: m.controller(Widget).owns(projected(ConfigMap.KIND, str)), ".owns needs whole objects"),
        (
            lambda m: m.controller(Widget).owns(ConfigMap).owns(ConfigMap, deletes=True),
            "controller 'widget' owns ConfigMap twice: name it in one .owns(...)",
        ),
        (
            lambda m: m.controller(Widget).watches(Secret),
            "to read a kind without being triggered by it, use .reads",
        ),
        (lambda m: m.controller(Widget).watches(Secret, generation_changed), "expected a mapper"),
        (lambda m: m.controller(Widget, when=untyped(generation_changed)), "did you mean generation_changed()?"),
        (
            lambda m: m.controller(name="keys").owns(ConfigMap),
            "controller 'keys' has no kind of its own, and .owns needs one: manager.controller(Kind)",
        ),
        (lambda m: m.controller(untyped(None)), "expected a kind or a name: manager.controller(Website)"),
        (lambda m: m.controller(untyped("Widget")), "expected a typed class, a form, a storage or an informer"),
        (lambda m: m.controller(Widget).source(untyped(Secret)), "expected a source: Watch"),
        (lambda m: m.controller(Widget).resync(0), "expected seconds above 0 for .resync, got 0"),
        (
            lambda m: m.controller(Widget).reconcile(untyped(Channel)),
            "expected an async function of (object, ctx), got Channel: pass the function, or the bound method",
        ),
        (
            lambda m: m.controller(Widget).finalizer("a.org/a", clean_up).finalizer("a.org/b", clean_up),
            "has the finalizer 'a.org/a' already: use one cleanup for both",
        ),
        (
            lambda m: m.controller(Widget).finalizer("a.org/a", clean_up).reconcile_keys(reconcile_keys),
            ".finalizer is for .reconcile; a reconciler of keys uses with_finalizer",
        ),
        (
            lambda m: m.controller(projected(Widget.KIND, str)).reconcile(untyped(reconcile)),
            "is kept as a projection, which .reconcile cannot use: use .reconcile_keys, or keep whole objects",
        ),
        (
            lambda m: (m.controller(Widget).reconcile(reconcile), m.controller(Widget).reconcile(reconcile)),
            "there is a controller 'widget' already: give this one another name, name=...",
        ),
        (
            lambda m: m.controller(Widget).reconcile(untyped(with_one_argument)),
            "(object, ctx), got with_one_argument(_widget): make it take these two arguments",
        ),
        (
            lambda m: m.controller(Widget).reconcile_keys(untyped(with_one_argument)),
            "expected an async function of (key, ctx), got with_one_argument",
        ),
        (
            lambda m: m.controller(Widget).reconcile(untyped(reconcile(untyped(None), untyped(None)))),
            "got a coroutine of reconcile: pass reconcile without calling it",
        ),
        (
            lambda m: m.controller(Widget).reconcile(untyped(generate)),
            "got the generator generate: use `return` in the place of `yield`",
        ),
        (
            lambda m: m.controller(Widget).finalizer("example.org/a", untyped(with_one_argument)),
            "the cleanup of controller 'widget': expected an async function of (object, ctx), got with_one_argument",
        ),
        (
            lambda m: m.controller(Widget).finalizer("example.org/a", untyped(None)),
            "the cleanup of controller 'widget': expected an async function of (object, ctx), got None",
        ),
        (
            lambda m: m.controller(Widget).finalizer("bucket", clean_up),
            "expected a finalizer such as 'example.org/bucket', a DNS name, a slash and a word, got 'bucket'",
        ),
        (lambda m: m.controller(Widget).finalizer("A b/c", clean_up), "got 'A b/c'"),
        (
            lambda m: m.controller(Widget).watches(Secret, untyped(generate)),
            "expected a plain function as mapper, got generate: make it without `async`",
        ),
        (
            lambda m: m.controller(Widget).watches(Secret, untyped(partial(with_one_argument))),
            "expected a plain function as mapper, got functools.partial(",
        ),
        (
            lambda m: m.controller(Widget).watches(Secret, untyped(lambda _old, _new: [])),
            "expected a mapper, which is called with an object, got <lambda>(_old, _new): make it take one argument",
        ),
        (
            lambda m: m.controller(Widget, when=untyped(lambda _old, _new: True)),
            "expected a predicate, which is called with a change, got <lambda>(_old, _new): make it take one argument",
        ),
        (
            lambda m: m.controller(Widget, namespaces="shops"),
            "manager.controller: expected a list of namespaces, got 'shops': namespaces=['shops']",
        ),
        (
            lambda m: m.controller(Widget).owns(ConfigMap, namespaces="shops"),
            "controller 'widget': expected a list of namespaces, got 'shops': namespaces=['shops']",
        ),
        (lambda m: m.cache.informer(Widget, namespaces="shops"), "expected a list of namespaces, got 'shops'"),
        (
            lambda m: m.controller(Widget).owns(ConfigMap, labels=untyped({"app": "web", "tier": "a"})),
            "controller 'widget': expected a selector in labels=, got a dict: labels='app=web,tier=a'",
        ),
        (
            lambda m: m.controller(Widget, options=untyped({"concurrency": 2})),
            "expected options=ControllerOptions(...), got {'concurrency': 2}",
        ),
        (lambda m: m.controller(Widget).owns(untyped([ConfigMap])), "pass kinds one after the other, without a list"),
        (
            lambda m: m.controller(Widget).owns(ConfigMap, mode=untyped("aply")),
            "controller 'widget': expected mode='replace' or mode='apply', got 'aply'",
        ),
        (
            lambda m: m.controller(Widget).owns(Node),
            "controller 'widget': a Widget cannot own a Node that is cluster-scoped, because Kubernetes looks for a",
        ),
        (
            lambda m: m.controller(Widget, namespaces=["a"]).owns(ConfigMap, namespaces=["b"]),
            "a Widget cannot own a ConfigMap that is in other namespaces (b), because Kubernetes looks for a",
        ),
        (
            lambda m: m.controller(Secret).updates_status(),
            "Secret has no field `status` to update: add one to the class, or leave out .updates_status()",
        ),
        (
            lambda m: m.controller(Widget).permissions(untyped("get")),
            """expected declarations such as allow(Secret, "get"), got 'get'""",
        ),
        (
            lambda m: m.controller(Widget).permissions(allow(Secret, untyped("read"))),
            "patch, delete, deletecollection, got 'read'; allow_rule takes any verb",
        ),
        (lambda m: m.controller(Widget).resync(untyped("1h")), "expected seconds above 0 for .resync, got '1h'"),
        (
            lambda m: m.controller(make("other").cache.informer(Widget)),
            "the informer of Widget belongs to another manager, which runs it: ask for it with",
        ),
        (
            lambda m: m.controller(m.cache.informer(Widget), labels="a=b"),
            "the informer of Widget has namespaces and selectors already: set them where it is asked for",
        ),
    ],
)
def test_a_mistake_is_refused_with_what_to_do(build: Callable[[Manager], object], sentence: str) -> None:
    assert sentence in refusal(build)


@pytest.mark.parametrize(
    ("owner", "child", "sentence"),
    [
        (Widget, {"kind": "ConfigMap"}, "ctx.apply: expected an object, ConfigMap(ObjectMeta(name=...))"),
        (Widget, None, "or a DynamicObject, got None"),
        (Widget, ConfigMap, "or a DynamicObject, got ConfigMap"),
        (Widget, [ConfigMap(ObjectMeta(name="a"))], "or a DynamicObject, got a list"),
        (
            Widget,
            ConfigMap(ObjectMeta(name="a", namespace="blue")),
            "ConfigMap blue/a is not in the namespace of its owner, red: leave its namespace out; for an object in",
        ),
        (
            Node,
            ConfigMap(ObjectMeta(name="a")),
            "expected a namespace in the metadata of ConfigMap a: Node one is cluster-scoped and has none to take it",
        ),
    ],
)
async def test_a_child_that_cannot_be_one_is_refused_with_what_to_do(
    owner: Callable[[ObjectMeta], Widget | Node], child: Any, sentence: str
) -> None:
    obj = owner(ObjectMeta(name="one", namespace="red" if owner is Widget else "", uid="u"))
    ctx = Context(untyped(None), obj.key, untyped(None), obj)

    with pytest.raises((TypeError, ValueError, UndeclaredError)) as refused:
        await ctx.apply(child)

    assert sentence in str(refused.value)


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
            with pytest.raises(RuntimeError, match=rf"ctx\.{call.__name__} was called after its run: await it before"):
                await untyped(call)(None)
        with pytest.raises(RuntimeError, match=r"ctx\.record was called after its run"):
            ctx.record("Normal", "Late", "late")


def test_a_builder_takes_nothing_after_its_reconciler() -> None:
    async def story() -> str:
        builder = make().controller(Widget)
        builder.reconcile(reconcile)
        with pytest.raises(RuntimeError) as refused:
            builder.owns(ConfigMap)
        return str(refused.value)

    assert asyncio.run(story()) == "controller 'widget' is complete: say everything before .reconcile(...)"


async def test_a_controller_without_a_reconciler_keeps_the_manager_from_running() -> None:
    manager = make()
    manager.controller(Widget).owns(ConfigMap)

    with pytest.raises(RuntimeError, match=r"controller 'widget' has no reconciler: complete it with \.reconcile"):
        await manager.run()
    with pytest.raises(RuntimeError, match="has no reconciler"):
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
