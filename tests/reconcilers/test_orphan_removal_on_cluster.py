"""Nothing is removed before the server says that its owner is gone: no cache, error or missing kind says that."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import evolve

from gpuruntime.api import names
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.kube.builtin.core import Service, ServicePort, ServiceSpec
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, NotFoundError
from gpuruntime.meta import FrozenDict, ObjectMeta
from gpuruntime.meta.owners import set_controller
from gpuruntime.reconcilers.orphans import OWNERSHIP, OrphanRemoval
from gpuruntime.testing import ClusterAccess
from tests.control.writing_scenes import open_client


@pytest.fixture
async def client(product: ClusterAccess) -> AsyncIterator[Client]:
    async with open_client(product) as opened:
        yield opened


@pytest.fixture
async def unit(client: Client, kube_namespace: str) -> GPUUnit:
    return await client.create(
        GPUUnit(ObjectMeta(name="demo", namespace=kube_namespace), GPUUnitSpec(spec_name="g1.1"))
    )


async def child(client: Client, unit: GPUUnit, uid: str, **changes: Any) -> Service:
    marks = FrozenDict({OWNERSHIP.owner_uid_name: uid, OWNERSHIP.owner_name: "gpuunits.runtime.lokiwager.io/demo"})
    metadata = ObjectMeta(name="unit-demo", namespace=unit.metadata.namespace, annotations=marks)
    spec = ServiceSpec(ports=(ServicePort(port=1),))
    return await client.create(Service(evolve(metadata, **changes), spec))


@pytest.mark.parametrize("name", ["demo", ""])
async def test_what_a_living_unit_made_stays_whatever_a_cache_says(name: str, client: Client, unit: GPUUnit) -> None:
    living = await child(client, unit, unit.metadata.uid)

    assert not await OrphanRemoval(client, GPUUnit.KIND).remove(living, name)
    assert await client.get(Service, "unit-demo", unit.metadata.namespace) == living


@pytest.mark.parametrize("name", ["demo", ""])
async def test_what_a_former_unit_made_goes_once(name: str, client: Client, unit: GPUUnit) -> None:
    removal, former = OrphanRemoval(client, GPUUnit.KIND), await child(client, unit, "former")

    assert [await removal.remove(former, name), await removal.remove(former, name)] == [True, False]
    assert removal.removed == {"Service": 1}


async def test_what_the_garbage_collector_knows_is_left_to_it(client: Client, unit: GPUUnit) -> None:
    bare = ObjectMeta(name="x", namespace=unit.metadata.namespace)
    references = set_controller(bare, evolve(unit, metadata=evolve(unit.metadata, name="else"))).owner_references
    owned = await child(client, unit, unit.metadata.uid, owner_references=references)

    assert not await OrphanRemoval(client, GPUUnit.KIND).remove(owned, "gone")


async def test_a_kind_that_is_not_served_says_nothing_about_its_objects(client: Client, unit: GPUUnit) -> None:
    former = await child(client, unit, "former")
    unserved = evolve(GPUUnit.KIND, version="v0")

    with pytest.raises(NotFoundError):
        await OrphanRemoval(client, unserved).remove(former, "demo")

    assert await client.get(Service, "unit-demo", unit.metadata.namespace) == former


async def test_only_the_state_that_was_judged_is_removed(client: Client, unit: GPUUnit) -> None:
    former = await child(client, unit, "former")
    marks = former.metadata.annotations | {OWNERSHIP.owner_uid_name: unit.metadata.uid}
    adopted = await client.update(evolve(former, metadata=evolve(former.metadata, annotations=marks)))

    with pytest.raises(ConflictError):
        await OrphanRemoval(client, GPUUnit.KIND).remove(former, "demo")

    assert await client.get(Service, "unit-demo", unit.metadata.namespace) == adopted


def test_the_marks_are_the_annotations_that_the_product_documents() -> None:
    assert (OWNERSHIP.owner_name, OWNERSHIP.owner_uid_name) == (names.OWNER, names.OWNER_UID)
