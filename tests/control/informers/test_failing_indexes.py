"""Indexes, transforms and projections that raise: the object is retried, and never taken for deleted."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.indexes import Index
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.storage import eager, projected
from gpuruntime.control.informers.store import QuarantinedError
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import MapServer
from tests.control.scenes import running, watch

WALL = ObjectKey("a", "wall")


class Fragile:
    """A function of the object that raises while it is broken."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.broken = True
        self.calls = 0
        self._function = function

    def __call__(self, raw: Any) -> Any:
        self.calls += 1
        if self.broken:
            raise LookupError("the directory does not answer")
        return self._function(raw)


def colour(raw: Any) -> Iterable[str]:
    return [raw["data"]["color"]]


def test_an_object_is_indexed_and_dispatched_once_the_index_works() -> None:
    fragile = Fragile(colour)

    async def story() -> tuple[int, list[str], list[tuple[str, str]]]:
        server = MapServer()
        server.put("wall", data={"color": "red"})
        informer = (cache := Cache(server)).informer(ConfigMap, indexes=[Index("colour", fragile)])
        async with running(cache):
            await informer.synced()
            witness = await watch(informer)
            with pytest.raises(QuarantinedError, match="the directory does not answer"):
                informer.store.get(WALL)
            await asyncio.sleep(600)
            calls = fragile.calls
            fragile.broken = False
            await asyncio.sleep(61)
            found = informer.store.list(where={"colour": "red"}).items
            return calls, [obj.metadata.name for obj in found], witness.changes

    calls, found, changes = run_virtual(story())

    assert found == ["wall"]
    assert changes == [("added", "wall")]
    assert 15 < calls < 30


def test_a_known_object_is_dispatched_as_modified_even_after_several_failed_states() -> None:
    fragile = Fragile(colour)
    fragile.broken = False
    steps: list[tuple[str | None, str | None]] = []

    async def story() -> None:
        server = MapServer()
        server.put("wall", data={"color": "red"})
        informer = (cache := Cache(server)).informer(ConfigMap, indexes=[Index("colour", fragile)])
        async with running(cache):
            await informer.synced()
            await informer.subscribe(lambda change: steps.append((of(change.before), of(change.after))))
            fragile.broken = True
            for color in ("green", "blue"):
                server.put("wall", data={"color": color})
            await asyncio.sleep(30)
            fragile.broken = False
            await asyncio.sleep(61)
            assert [len(informer.store.list(where={"colour": color}).items) for color in ("red", "blue")] == [0, 1]

    def of(obj: ConfigMap | None) -> str | None:
        return None if obj is None else obj.data["color"]

    run_virtual(story())

    assert steps == [(None, "red"), ("red", "blue")]


def test_an_object_that_goes_while_its_index_fails_is_tried_no_more() -> None:
    fragile = Fragile(colour)

    async def story() -> tuple[int, int]:
        server = MapServer()
        server.put("wall", data={"color": "red"})
        informer = (cache := Cache(server)).informer(ConfigMap, indexes=[Index("colour", fragile)])
        async with running(cache):
            await informer.synced()
            server.remove("wall")
            await asyncio.sleep(5)
            before = fragile.calls
            await asyncio.sleep(600)
            return fragile.calls - before, informer.retrying

    assert run_virtual(story()) == (0, 0)


def projecting(fragile: Fragile) -> Any:
    return projected(ConfigMap.KIND, fragile)


def transforming(fragile: Fragile) -> Any:
    return eager(ConfigMap, fragile)


@pytest.mark.parametrize("storage", [projecting, transforming])
def test_projections_and_transforms_have_another_try_too(storage: Callable[[Fragile], Any]) -> None:
    fragile = Fragile(lambda raw: raw)

    async def story() -> tuple[bool, bool]:
        server = MapServer()
        server.put("wall", data={"color": "red"})
        informer: Informer[Any] = (cache := Cache(server)).informer(storage(fragile))
        async with running(cache):
            await informer.synced()
            failing = informer.store.quarantined == 1
            fragile.broken = False
            await asyncio.sleep(5)
            return failing, informer.store.get(WALL) is not None if not informer.store.quarantined else False

    assert run_virtual(story()) == (True, True)


def test_what_does_not_fit_its_type_is_left_in_quarantine_and_is_no_failure_of_code() -> None:
    async def story() -> tuple[int, int, int]:
        server = MapServer()
        server.put("wall", data={"color": 7})
        informer = (cache := Cache(server)).informer(ConfigMap)
        async with running(cache):
            await informer.synced()
            await asyncio.sleep(60)
            return informer.store.quarantined, informer.retrying, informer.index_failures

    assert run_virtual(story()) == (1, 0, 0)


def test_an_index_that_gives_a_text_says_what_to_give() -> None:
    async def story() -> tuple[tuple[ObjectKey, str], ...]:
        server = MapServer()
        server.put("wall", data={"color": "red"})
        index = Index("colour", lambda raw: raw["data"]["color"])
        informer = (cache := Cache(server)).informer(ConfigMap, indexes=[index])
        async with running(cache):
            await informer.synced()
            return informer.store.faults(1)

    assert run_virtual(story()) == (
        (WALL, "TypeError: index 'colour' returned the string 'red', expected a list such as ['red']"),
    )


def forgetful(raw: Any) -> Any:
    raw["metadata"].pop("annotations", None)


@pytest.mark.parametrize(
    ("transform", "values", "said"),
    [
        (forgetful, colour, "returned None"),
        (lambda raw: raw, lambda raw: [raw["data"]], "strings"),
        (lambda raw: raw, lambda _: [5], "returned 5"),
    ],
    ids=["a transform without return", "an index of maps", "an index of numbers"],
)
def test_an_invalid_transform_or_index_quarantines_the_object_and_ends_nothing(
    transform: Callable[[Any], Any], values: Callable[[Any], Any], said: str
) -> None:
    async def story() -> tuple[str, list[tuple[str, str]]]:
        server = MapServer()
        server.put("wall", data={"color": "red"})
        cache = Cache(server)
        informer = cache.informer(eager(ConfigMap, transform), indexes=[Index("colour", values)])
        async with running(cache):
            await informer.synced()
            witness = await watch(informer)
            await asyncio.sleep(60)
            server.put("door", data={"color": "blue"})
            await asyncio.sleep(1)
            return " ".join(informer.failing), witness.changes

    failing, changes = run_virtual(story())

    assert said in failing
    assert changes == []


def test_an_object_is_transformed_once_however_often_its_index_raises() -> None:
    fragile = Fragile(lambda raw: [raw["colour"]])

    def renamed(raw: Any) -> Any:
        raw["colour"] = raw.pop("data")["color"]
        raw["data"] = {}
        return raw

    async def story() -> list[str]:
        server = MapServer()
        server.put("wall", data={"color": "red"})
        cache = Cache(server)
        informer = cache.informer(eager(ConfigMap, renamed), indexes=[Index("colour", fragile)])
        async with running(cache):
            await informer.synced()
            fragile.broken = False
            await asyncio.sleep(61)
            return [obj.metadata.name for obj in informer.store.list(where={"colour": "red"}).items]

    assert run_virtual(story()) == ["wall"]
