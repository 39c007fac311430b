"""The usual slips in putting a controller together, and what is said about each."""

import asyncio
from typing import Any

import pytest

from gpuruntime.control import (
    Cache,
    Channel,
    Controller,
    ControllerOptions,
    ObjectReconciler,
    Result,
    RunInfo,
    Timer,
    Watch,
    enqueue_mapped,
    enqueue_object,
    enqueue_owner,
    generation_changed,
)
from gpuruntime.control.controllers.usage import check_takes_change, check_work
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta import ObjectKey
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import MapServer
from tests.control.scenes import running

TEXTS = ControllerOptions(parse_key=str)


class Sound:
    async def reconcile(self, _key: str, _context: RunInfo) -> Result:
        return Result.done()


async def handle(_obj: ConfigMap, _context: RunInfo) -> Result:
    return Result.done()


@pytest.mark.parametrize(
    ("reconciler", "said"),
    [
        (Sound, r"reconciler.* class Sound.* Sound\(\.\.\.\)"),
        (handle, r"reconciler.* handle.* ObjectReconciler\(store, function\)"),
        ("page", "reconciler.* str"),
    ],
    ids=["a class", "a function", "a text"],
)
def test_what_is_no_reconciler_is_refused_with_what_to_do(reconciler: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Controller("one", reconciler, [])


def test_a_reconciler_of_objects_reads_a_store_and_awaits_its_function() -> None:
    def plain(_obj: ConfigMap, _context: RunInfo) -> Any:
        return Result.done()

    async def story() -> None:
        server = MapServer()
        server.put("x")
        cache = Cache(server)
        informer = cache.informer(ConfigMap)
        with pytest.raises(TypeError, match=r"got Informer.*informer\.store"):
            ObjectReconciler(informer, handle)  # type: ignore[arg-type]  # the mistake under test
        async with running(cache):
            await cache.synced()
            with pytest.raises(TypeError, match="plain returned Result"):
                await ObjectReconciler(informer.store, plain).reconcile(
                    ObjectKey("a", "x"), RunInfo("one", "0", 0, (), 0.0, 0.0)
                )

    run_virtual(story())


def test_what_is_no_source_is_refused_with_what_to_do() -> None:
    informer = Cache(MapServer()).informer(ConfigMap)
    wrong: list[tuple[Any, str]] = [
        (informer, r"source.* Watch\(informer, enqueue_object\(\)\)"),
        (Timer, "source.* got <class '.*Timer'>"),
        ("pages", "source.* got 'pages'"),
    ]

    for source, said in wrong:
        with pytest.raises(TypeError, match=said):
            Controller("one", Sound(), [source])


def test_a_trigger_or_predicate_that_was_not_called_is_refused_with_what_to_do() -> None:
    informer = Cache(MapServer()).informer(ConfigMap)
    not_called: Any = enqueue_object
    predicate: Any = generation_changed

    with pytest.raises(TypeError, match=r"trigger.* enqueue_object\(\)"):
        Watch(informer, not_called)
    with pytest.raises(TypeError, match=r"predicate.* generation_changed\(\)"):
        Watch(informer, enqueue_object(), [predicate])
    with pytest.raises(TypeError, match=r"predicate.* 'Ready'"):
        check_takes_change(["Ready"], "predicate")  # type: ignore[list-item] # what a program without types may pass


def test_whatever_can_be_called_with_a_change_is_a_trigger() -> None:
    informer = Cache(MapServer()).informer(ConfigMap)

    triggers: list[Any] = [
        enqueue_object(),
        enqueue_owner(ConfigMap.KIND),
        enqueue_mapped(lambda _: ["x"]),
        lambda _, _more=1: [],
        list,
        iter,
    ]

    for trigger in triggers:
        Watch(informer, trigger, [generation_changed(), bool])


def test_a_controller_outside_of_a_loop_is_refused_with_what_to_do() -> None:
    store = Cache(MapServer()).informer(ConfigMap).store

    with pytest.raises(RuntimeError, match=r"asyncio\.run"):
        Controller("one", ObjectReconciler(store, handle), [Channel()])


class Plain:
    def reconcile(self, _key: str, _context: RunInfo) -> Result:
        return Result.done()


class Returning:
    def __init__(self, result: Any) -> None:
        self._result = result

    async def reconcile(self, _key: str, _context: RunInfo) -> Result:
        result: Result = self._result() if callable(self._result) and self._result is not Result else self._result
        return result


async def later() -> Result:
    return Result.done()


@pytest.mark.parametrize(
    ("reconciler", "said"),
    [
        (Plain(), "Plain.reconcile returned Result(seconds=None)"),
        (Returning(None), "got None"),
        (Returning(later), "got <coroutine object later"),
        (Returning(Result), "got <class 'gpuruntime.control.controllers.reconcile.Result'>"),
        (Returning(7), "got 7"),
    ],
    ids=["not async", "nothing", "not awaited", "the class", "a number"],
)
def test_a_run_that_gives_something_else_fails_with_what_to_do(
    reconciler: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        channel = Channel[str]()
        task = asyncio.create_task(Controller("one", reconciler, [channel], options=TEXTS).run())
        channel.send("x")
        await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(story())

    assert said in vars(caplog.records[0])["error"]


def test_work_is_handed_over_without_being_called() -> None:
    with pytest.raises(TypeError, match="later"):
        check_work(later())
    with pytest.raises(TypeError, match="'later'"):
        check_work("later")
    check_work(later)


@pytest.mark.parametrize("seconds", ["5", True])
def test_a_delay_is_a_number(seconds: Any) -> None:
    with pytest.raises(TypeError, match=f"got {seconds!r}"):
        Result.after(seconds)
