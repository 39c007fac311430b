"""What informers show of writes: any history of an object, before any selector, on a server in memory."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import orjson
import pytest
from attrs import define, field, frozen
from hypothesis import example, given
from hypothesis import strategies as st

from gpuruntime.control.controllers.freshness import Freshness
from gpuruntime.control.controllers.journal import Journal, JournalingTransport, Written
from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.controllers.visibility import is_selected, is_shown
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.informer import InformerScope
from gpuruntime.control.informers.storage import eager
from gpuruntime.control.informers.store import Store
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta.field_selectors import parse_field_selector
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.label_selectors import parse_selector
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import MapServer, Scope
from tests.control.scenes import running

MAPS = "/api/v1/namespaces/a/configmaps"
KEY = ObjectKey("a", "x")


@frozen
class Step:
    """What this or another client does to the object: give it a label and a color, or delete it."""

    ours: bool
    app: Literal["x", "y", "none", "deleted"]
    color: Literal["red", "blue"] = "red"


@frozen
class State:
    """What a step left, None if nothing, and the version that it made."""

    ours: bool
    version: int
    obj: dict[str, Any] | None


@define
class Object:
    """The object of the key, and its history."""

    server: MapServer
    history: list[State] = field(factory=list)

    async def play(self, steps: Sequence[Step]) -> None:
        for step in steps:
            exists = bool(self.history) and self.history[-1].obj is not None
            if step.app != "deleted" or exists:
                obj = await self._write(step, exists=exists) if step.ours else self._change(step)
                self.history.append(State(step.ours, self.server.version, obj))

    def _change(self, step: Step) -> dict[str, Any] | None:
        if step.app == "deleted":
            self.server.remove("x")
            return None
        return self.server.put("x", "a", _labels(step), data={"color": step.color})

    async def _write(self, step: Step, *, exists: bool) -> dict[str, Any] | None:
        wire = JournalingTransport(self.server)
        if step.app == "deleted":
            await wire.send(Request("DELETE", f"{MAPS}/x"))
            return None
        body = orjson.dumps({"metadata": {"name": "x", "labels": _labels(step)}, "data": {"color": step.color}})
        method, path = ("PUT", f"{MAPS}/x") if exists else ("POST", MAPS)
        return (await wire.send(Request(method, path, body=body))).json_object()


def _labels(step: Step) -> dict[str, str]:
    return {} if step.app == "none" else {"app": step.app}


@frozen
class Sight:
    """A moment of a store: what it holds of the object, how far it is, and whether that is said to be enough."""

    known: tuple[str, str] | None
    reached: int
    shown: bool


async def sights(informer: Any, server: MapServer, written: Written) -> list[Sight]:
    """Let the events flow; gives what each of them left."""
    seen: list[Sight] = []

    def look(store: Store[Any]) -> bool:
        shown = is_shown(store, informer.scope, written)
        seen.append(Sight(store.version_of(KEY), int(store.version_in("a")), shown))
        return False

    looking = asyncio.create_task(informer.until(look))
    await asyncio.sleep(0)
    server.release()
    await asyncio.sleep(1)
    looking.cancel()
    return seen


SCOPES = st.sampled_from(
    [
        {},
        {"namespaces": ["b", "a"]},
        {"labels": "app=x"},
        {"labels": "app!=x", "namespaces": ["a", "b"]},
        {"labels": "app", "fields": "metadata.name=x"},
        {"fields": "metadata.name!=x"},
        {"fields": "data.color=red"},
    ]
)
STEPS = st.builds(Step, st.booleans(), st.sampled_from(["x", "y", "none", "deleted"]), st.sampled_from(["red", "blue"]))
HISTORIES = st.tuples(st.lists(STEPS, max_size=2), st.lists(STEPS, max_size=6))
OURS = [Step(ours=True, app=app) for app in ("x", "y", "x", "deleted")]


@given(scope=SCOPES, steps=HISTORIES, shows_deleted=st.booleans())
@example({"labels": "app=x"}, ([], OURS[:2]), False)
@example({"labels": "app=x"}, (OURS[:1], OURS[1:]), True)
@example({"labels": "app", "namespaces": ["a", "b"]}, (OURS[:1], OURS[3:]), True)
def test_a_store_is_said_to_show_a_write_if_it_is_not_behind_it_and_at_last_it_does(
    scope: dict[str, Any], steps: tuple[list[Step], list[Step]], shows_deleted: bool
) -> None:
    async def story() -> tuple[list[State], Written | None, list[Sight]]:
        server, journal = MapServer(shows_deleted=shows_deleted), Journal()
        obj = Object(server)
        await obj.play(steps[0])
        cache = Cache(server)
        informer = cache.informer(ConfigMap, **scope)
        async with running(cache):
            await cache.synced()
            server.hold()
            first = len(obj.history)
            with journal.recording("key"):
                await obj.play(steps[1])
            traces = journal.traces("key")
            written = traces[0] if traces else None
            seen = await sights(informer, server, written) if written else []
            return obj.history[first:], written, seen

    history, written, seen = run_virtual(story())

    if written is None:
        assert not any(state.ours for state in history)
        return
    selected = Scope.asked("a", {"labelSelector": scope.get("labels", ""), "fieldSelector": scope.get("fields", "")})
    ours = [state for state in history if state.ours]
    for sight in seen:
        if not sight.shown:
            continue
        if sight.known is None and scope.get("fields") != "data.color=red":
            assert not [state for state in ours if selected.has(state.obj) and state.version > sight.reached]
        if sight.known is not None and written.version:
            assert int(sight.known[1]) >= int(written.version)
    assert seen[-1].shown


@given(scope=SCOPES, steps=HISTORIES, shows_deleted=st.booleans())
@example({"labels": "app", "namespaces": ["a", "b"]}, (OURS[:1], OURS[3:]), True)
def test_no_run_is_held_up_by_an_informer_that_has_heard_all_it_will_hear(
    scope: dict[str, Any], steps: tuple[list[Step], list[Step]], shows_deleted: bool
) -> None:
    async def story() -> int:
        server = MapServer(shows_deleted=shows_deleted)
        cache, obj, counters = Cache(server), Object(server), ReconcileCounters()
        await obj.play(steps[0])
        cache.informer(ConfigMap, **scope)
        freshness = Freshness(cache, server)
        async with running(cache):
            await cache.synced()
            server.hold()
            with freshness.recording("key"):
                await obj.play(steps[1])
            asyncio.get_running_loop().call_later(1, server.release)
            await freshness.settle("key", counters)
            return counters.live_reads

    assert run_virtual(story()) == 0


@pytest.mark.parametrize(
    ("labels", "fields", "given_labels", "expected"),
    [
        ("", "", None, True),
        ("app=x", "", {"app": "x"}, True),
        ("app=x", "", {"app": "y"}, False),
        ("app=x", "", {}, False),
        ("app=x", "", None, None),
        ("", "metadata.name=x,metadata.namespace=a", None, True),
        ("", "metadata.namespace!=a", None, False),
        ("", "status.phase=Running", {}, None),
        ("app=x", "status.phase=Running", {"app": "y"}, False),
        ("app=x", "metadata.name!=x", None, False),
    ],
)
def test_selection_is_known_by_labels_and_name_only(
    labels: str, fields: str, given_labels: dict[str, str] | None, expected: bool | None
) -> None:
    scope = InformerScope(eager(ConfigMap), (), parse_selector(labels), parse_field_selector(fields))

    assert is_selected(scope, KEY, given_labels) is expected
