"""What can be claimed, and in which order, whatever happens to units."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Cache
from gpuruntime.desired.pool_units import is_ready_stock
from gpuruntime.kube.watch_events import WatchEvent
from gpuruntime.service.reads.unit_index import watch_units
from gpuruntime.service.stock.ready_stock import ReadyStock
from gpuruntime.testing.virtual_time import run_virtual
from tests.service.reads.test_reader import Silent

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ready", "starting", "claimed", "unreadable", "gone"]),
        st.integers(0, 5),
        st.sampled_from(["g1", "g2"]),
        st.integers(0, 2),
    ),
    max_size=30,
)


def event(version: int, state: str, number: int, spec_name: str, made: int) -> WatchEvent:
    """A step of the unit with this number; another day of creation makes another unit of it."""
    annotations = {"runtime.lokiwager.io/stock-claim-id": "x"} if state == "claimed" else {}
    condition = {"type": "Ready", "status": "False" if state == "starting" else "True", "reason": "R", "message": ""}
    raw: dict[str, Any] = {
        "metadata": {
            "name": f"unit-{number}",
            "namespace": "stock",
            "uid": f"{number}-{made}",
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": f"2026-01-0{1 + made}T00:00:00Z",
            "annotations": annotations,
        },
        "spec": 7 if state == "unreadable" else {"specName": spec_name},
        "status": {"observedGeneration": 1, "conditions": [condition | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }
    return WatchEvent("DELETED" if state == "gone" else "MODIFIED", raw, 100)


@given(STEPS, st.sets(st.integers(0, 5)))
def test_it_is_what_the_cache_shows_to_be_ready_the_oldest_first(
    steps: list[tuple[str, int, str, int]], besides: set[int]
) -> None:
    async def story() -> None:
        informer = watch_units(Cache(Silent()), ["stock"])
        writer = informer._writer
        await writer.replace("stock", writer.new_indexer(), "1")
        stock = ReadyStock(informer, Namespaces(stock=("stock",)))
        unwanted = {f"{number}-{made}" for number in besides for made in range(3)}

        async with stock.following():
            for version, step in enumerate(steps, start=2):
                await writer.handle("stock", event(version, *step))
            found = {name: list(stock.oldest("stock", name, unwanted)) for name in ("g1", "g2")}

        ready = [unit for unit in informer.store.list("stock").items if is_ready_stock(unit)]
        ready.sort(key=lambda unit: (unit.metadata.creation_timestamp or "", unit.metadata.name))
        for name, units in found.items():
            assert units == [
                unit for unit in ready if unit.spec.spec_name == name and unit.metadata.uid not in unwanted
            ]

    run_virtual(story())


def test_outside_of_stock_namespaces_nothing_can_be_claimed() -> None:
    async def story() -> None:
        informer = watch_units(Cache(Silent()), ["stock"])
        writer = informer._writer
        await writer.replace("stock", writer.new_indexer(), "1")
        stock = ReadyStock(informer, Namespaces(stock=("elsewhere",)))

        async with stock.following():
            await writer.handle("stock", event(2, "ready", 1, "g1", 0))
            found = list(stock.oldest("stock", "g1", ()))

        assert found == []

    run_virtual(story())
