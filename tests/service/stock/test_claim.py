"""The patch of a claim, and the order of candidates."""

from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import SOURCE_POOL
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import Operation, OperationSpec
from gpuruntime.control import Cache
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.desired.provenance import CLAIMED_FOR
from gpuruntime.kube.watch_events import WatchEvent
from gpuruntime.meta import ObjectKey, ObjectMeta, OwnerReference, encode
from gpuruntime.service.reads.informers import watch_units
from gpuruntime.service.stock.claim import ReadyStock, claim_for, claim_patch
from gpuruntime.testing.virtual_time import run_virtual
from tests.desired.pool_scenes import NOW, pool, stock
from tests.service.reads.test_reader import Silent

OPERATION = Operation(ObjectMeta(name="op-1", namespace="system", uid="op-uid"), OperationSpec("order-1", "x", "y"))
ACTIVE = ObjectKey("tenants", "demo")
FARM = OwnerReference("example.org/v1", "Farm", "north", "farm-uid", controller=True)
FRIEND = OwnerReference("v1", "ConfigMap", "notes", "notes-uid")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ready", "starting", "claimed", "unreadable", "gone"]),
        st.integers(0, 5),
        st.sampled_from(["g1", "g2"]),
        st.integers(0, 2),
    ),
    max_size=30,
)


def owned_by(*owners: OwnerReference) -> GPUUnit:
    unit = stock(pool(1), 1)
    return evolve(unit, metadata=evolve(unit.metadata, owner_references=owners))


def test_a_claim_removes_the_owner_reference_of_the_pool_and_names_the_pool() -> None:
    unit = stock(pool(1), 1)
    pooled = owned_by(FRIEND, *unit.metadata.owner_references)

    alone = claim_patch(unit, claim_for(OPERATION, unit, ACTIVE), NOW).body["metadata"]
    befriended = claim_patch(pooled, claim_for(OPERATION, pooled, ACTIVE), NOW).body["metadata"]

    assert alone["ownerReferences"] is None
    assert (alone["annotations"][SOURCE_POOL], alone["annotations"][CLAIMED_FOR]) == ("warm", "tenants/demo")
    assert list(befriended["ownerReferences"]) == [encode(FRIEND)]


def test_a_claim_keeps_a_controller_that_is_not_a_pool() -> None:
    unit = owned_by(FRIEND, FARM)

    claimed = claim_patch(unit, claim_for(OPERATION, unit, ACTIVE), NOW).body["metadata"]

    assert list(claimed["ownerReferences"]) == [encode(FRIEND), encode(FARM)]
    assert SOURCE_POOL not in claimed["annotations"]


def event(version: int, state: str, number: int, spec_name: str, made: int) -> WatchEvent:
    """A watch event of the unit with this number; another creation day makes it another unit."""
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
def test_ready_stock_is_what_the_cache_shows_as_ready_the_oldest_first(
    steps: list[tuple[str, int, str, int]], excluded: set[int]
) -> None:
    async def story() -> None:
        informer = watch_units(Cache(Silent()), ["stock"])
        writer = informer._writer
        await writer.replace("stock", writer.new_indexer(), "1")
        ready_stock = ReadyStock(informer, Namespaces(stock=("stock",)))
        excluded_uids = {f"{number}-{made}" for number in excluded for made in range(3)}

        async with ready_stock.subscribed():
            for version, step in enumerate(steps, start=2):
                await writer.handle("stock", event(version, *step))
            found = {name: list(ready_stock.oldest("stock", name, excluded_uids)) for name in ("g1", "g2")}

        ready = [unit for unit in informer.store.list("stock").items if is_ready_stock(unit)]
        ready.sort(key=lambda unit: (unit.metadata.creation_timestamp or "", unit.metadata.name))
        for name, units in found.items():
            assert units == [
                unit for unit in ready if unit.spec.spec_name == name and unit.metadata.uid not in excluded_uids
            ]

    run_virtual(story())


def test_units_outside_of_stock_namespaces_are_no_candidates() -> None:
    async def story() -> None:
        informer = watch_units(Cache(Silent()), ["stock"])
        writer = informer._writer
        await writer.replace("stock", writer.new_indexer(), "1")
        ready_stock = ReadyStock(informer, Namespaces(stock=("elsewhere",)))

        async with ready_stock.subscribed():
            await writer.handle("stock", event(2, "ready", 1, "g1", 0))
            found = list(ready_stock.oldest("stock", "g1", ()))

        assert found == []

    run_virtual(story())
