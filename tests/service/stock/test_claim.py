"""What a claim writes on a stock unit."""

from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import SOURCE_POOL
from gpuruntime.api.operation import Operation, OperationSpec
from gpuruntime.desired.provenance import CLAIMED_FOR
from gpuruntime.meta import ObjectKey, ObjectMeta, OwnerReference, encode
from gpuruntime.service.stock.claim import claim_for, claim_patch
from tests.desired.pool_scenes import NOW, pool, stock

OPERATION = Operation(ObjectMeta(name="op-1", namespace="system", uid="op-uid"), OperationSpec("order-1", "x", "y"))
ACTIVE = ObjectKey("tenants", "demo")
FARM = OwnerReference("example.org/v1", "Farm", "north", "farm-uid", controller=True)
FRIEND = OwnerReference("v1", "ConfigMap", "notes", "notes-uid")


def owned_by(*owners: OwnerReference) -> GPUUnit:
    unit = stock(pool(1), 1)
    return evolve(unit, metadata=evolve(unit.metadata, owner_references=owners))


def test_a_claim_takes_a_unit_out_of_the_hands_of_its_pool_and_names_the_pool() -> None:
    unit = stock(pool(1), 1)
    pooled = owned_by(FRIEND, *unit.metadata.owner_references)

    alone = claim_patch(unit, claim_for(OPERATION, unit, ACTIVE), NOW).body["metadata"]
    befriended = claim_patch(pooled, claim_for(OPERATION, pooled, ACTIVE), NOW).body["metadata"]

    assert alone["ownerReferences"] is None
    assert (alone["annotations"][SOURCE_POOL], alone["annotations"][CLAIMED_FOR]) == ("warm", "tenants/demo")
    assert list(befriended["ownerReferences"]) == [encode(FRIEND)]


def test_a_claim_leaves_the_controller_of_a_unit_that_is_no_pool_s() -> None:
    unit = owned_by(FRIEND, FARM)

    claimed = claim_patch(unit, claim_for(OPERATION, unit, ACTIVE), NOW).body["metadata"]

    assert list(claimed["ownerReferences"]) == [encode(FRIEND), encode(FARM)]
    assert SOURCE_POOL not in claimed["annotations"]
