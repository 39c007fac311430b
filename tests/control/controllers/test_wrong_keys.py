"""What is no key is refused with what to return, and shows like any failure of a trigger."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from attrs import frozen

from gpuruntime.control.controllers.controller import Controller, ControllerOptions
from gpuruntime.control.controllers.reconcile import Result, RunInfo
from gpuruntime.control.controllers.sources import Channel, Timer, Watch
from gpuruntime.control.controllers.triggers import enqueue_mapped
from gpuruntime.control.informers.cache import Cache
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import MapServer
from tests.control.scenes import running


class Noting:
    def __init__(self) -> None:
        self.keys: list[Any] = []

    async def reconcile(self, key: Any, _context: RunInfo) -> Result:
        self.keys.append(key)
        return Result.done()


def enqueued(
    caplog: pytest.LogCaptureFixture, trigger: Callable[[Any], Any], options: ControllerOptions | None = None
) -> tuple[list[Any], str]:
    """The keys that ran for one object, and what the log says."""
    noting = Noting()

    async def story() -> None:
        server = MapServer()
        server.put("page")
        informer = (cache := Cache(server)).informer(ConfigMap)
        controller: Controller[Any] = Controller("pages", noting, [Watch(informer, trigger)], options=options)
        async with running(cache):
            working = asyncio.create_task(controller.run())
            await asyncio.sleep(1)
            working.cancel()
            await asyncio.wait([working])

    run_virtual(story())
    return noting.keys, caplog.text


def mapping(function: Any) -> Callable[[Any], Any]:
    """For mistakes that a type checker finds."""
    return enqueue_mapped(function)


async def later(_obj: Any) -> list[ObjectKey]:
    return []


def names_of(obj: Any) -> list[str]:
    return [obj.metadata.name]


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        (enqueue_mapped(lambda obj: obj.key), "returned ObjectKey(namespace='a', name='page')"),
        (lambda change: change.key, "returned ObjectKey(namespace='a', name='page')"),
        (enqueue_mapped(lambda obj: str(obj.key)), "returned 'a/page'"),
        (enqueue_mapped(lambda obj: [str(obj.key)]), "gave the key 'a/page'"),
        (enqueue_mapped(lambda obj: [tuple(obj.key)]), "gave the key ('a', 'page')"),
        (enqueue_mapped(lambda _: [None]), "gave the key None"),
        (enqueue_mapped(lambda obj: [obj]), "ObjectKey(namespace, name)"),
        (
            mapping(lambda _: None),
            "returned None",
        ),
        (lambda _: None, "return []"),
        (mapping(lambda _: 7), "returned 7"),
        (mapping(later), "later returned a coroutine"),
        (mapping(names_of), "names_of gave the key 'page'"),
    ],
)
def test_what_is_no_key_is_refused_with_what_to_return(
    caplog: pytest.LogCaptureFixture, trigger: Callable[[Any], Any], said: str
) -> None:
    keys, log = enqueued(caplog, trigger)

    assert said in log
    assert keys == []


def shout(text: str) -> str:
    return text.upper()


@frozen
class Place:
    name: str

    @classmethod
    def parse(cls, text: str) -> "Place":
        return cls(text)


@pytest.mark.parametrize(
    ("parse_key", "key"),
    [(str, "page"), (shout, "page"), (Place.parse, Place("page")), (Place, Place("page")), (lambda text: text, 7)],
)
def test_a_controller_may_have_keys_of_its_own_type(
    caplog: pytest.LogCaptureFixture, parse_key: Callable[[str], Any], key: Any
) -> None:
    keys, _ = enqueued(caplog, enqueue_mapped(lambda _: [key]), ControllerOptions(parse_key=parse_key))

    assert keys == [key]


def test_of_a_declared_type_others_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    keys, log = enqueued(caplog, enqueue_mapped(lambda obj: [obj.key]), ControllerOptions(parse_key=str))

    assert keys == []
    assert "expected a str" in log


@pytest.mark.parametrize("keys", [lambda: "a/page", lambda: ObjectKey("a", "page"), lambda: None, lambda: ["a/page"]])
def test_the_keys_of_a_timer_are_looked_at_too(keys: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> None:
    noting = Noting()

    async def story() -> tuple[int, str]:
        timer: Timer[Any] = Timer(10, keys)
        controller: Controller[Any] = Controller("pages", noting, [timer])
        working = asyncio.create_task(controller.run())
        await asyncio.sleep(15)
        working.cancel()
        await asyncio.wait([working])
        return timer.retrying, timer.trouble

    retrying, trouble = run_virtual(story())

    assert noting.keys == []
    assert "expected an iterable of keys" in caplog.text or "expected ObjectKey(namespace, name)" in caplog.text
    assert (retrying, trouble.startswith("the keys of timer fail (TypeError: ")) == (1, True)


def test_a_store_refuses_what_is_no_key() -> None:
    store = Cache(MapServer()).informer(ConfigMap).store

    with pytest.raises(TypeError, match="v1 ConfigMap, got 'a/page'"):
        store.get("a/page")  # type: ignore[arg-type]  # the mistake under test


def test_a_channel_refuses_what_is_no_key_of_its_controller() -> None:
    noting = Noting()

    async def story() -> tuple[str, str]:
        channel, early = Channel[Any](), Channel[Any]()
        working = asyncio.create_task(Controller[Any]("pages", noting, [channel]).run())
        await asyncio.sleep(1)
        with pytest.raises(TypeError) as sent:
            channel.send("a/page")
        working.cancel()
        await asyncio.wait([working])
        early.send("a/page")
        with pytest.raises(TypeError) as started:
            await Controller[Any]("pages", noting, [early]).run()
        return str(sent.value), str(started.value)

    assert all("ObjectKey(namespace, name)" in said for said in run_virtual(story()))
    assert noting.keys == []
