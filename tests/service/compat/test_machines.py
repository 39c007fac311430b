from collections.abc import Mapping
from datetime import UTC, datetime

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.desired.provenance import Claim, Provenance
from gpuruntime.meta import EMPTY, Condition, FrozenDict, ObjectKey, ObjectMeta
from gpuruntime.service.compat.cluster import stock_of, stocks_of, vm_of
from gpuruntime.service.compat.machines import NewVM, tenant_labels, vm_name

READY = GPUUnitStatus(
    phase="Ready", observed_generation=1, conditions=(Condition(type="Ready", status="True", reason="UnitReady"),)
)
WAITING = GPUUnitStatus(
    phase="Progressing",
    observed_generation=1,
    conditions=(Condition(type="Ready", status="False", reason="Unschedulable", message="no room"),),
)


def unit(name: str, namespace: str, status: GPUUnitStatus, marks: Mapping[str, str] = EMPTY) -> GPUUnit:
    metadata = ObjectMeta(name=name, namespace=namespace, generation=1, annotations=FrozenDict(marks))
    return GPUUnit(metadata, GPUUnitSpec("g1.1", cpu="4", gpu=1), status)


def marked(name: str, namespace: str, marks: Mapping[str, str]) -> GPUUnit:
    return unit(name, namespace, READY, marks)


def test_a_stock_says_whether_it_can_be_had_and_if_not_why() -> None:
    ready, waiting = stock_of(unit("a", "stock", READY)), stock_of(unit("b", "stock", WAITING))
    failed = stock_of(unit("c", "stock", GPUUnitStatus(phase="Failed")))

    assert (ready.status, ready.message, ready.gpu_num, ready.cpu) == ("available", None, 1, "4")
    assert (waiting.status, waiting.message) == ("creating", "no room")
    assert failed.status == "failed"


def test_the_capacity_of_a_vm_is_listed_once_while_it_is_handed_over_and_after() -> None:
    claim = Claim("uid", "op", ObjectKey("active", "vm")).annotations(datetime.now(UTC))
    source = Provenance(ObjectKey("stock", "b"), "uid").annotations()
    units = [marked("a", "stock", {}), marked("b", "stock", claim), marked("vm", "active", source)]

    handed_over, claimed, after = (stocks_of(some, "stock") for some in (units, units[:2], units[::2]))

    expected = [("a", "available", None), ("b", "allocated", "vm")]
    for stocks in (handed_over, claimed, after):
        assert [(stock.id, stock.status, stock.vm_id) for stock in stocks] == expected


def test_a_vm_says_whose_it_is_and_what_it_took() -> None:
    source = Provenance(ObjectKey("stock", "b"), "uid").annotations()
    running, creating = vm_of(marked("vm", "active", source)), vm_of(unit("vm", "active", WAITING))

    assert (running.status, running.stock_id, running.message) == ("running", "b", None)
    assert (creating.status, creating.stock_id, creating.message) == ("creating", None, "no room")


def test_tenants_are_labels_and_vms_are_named_by_their_operation() -> None:
    labels = tenant_labels(NewVM(tenant_id="t", tenant_name="", spec_name="g1.1"))

    assert labels == {"runtime.lokiwager.io/tenant-id": "t"}
    assert vm_name("a") == vm_name("a") != vm_name("b")
