from collections.abc import Mapping
from datetime import UTC, datetime

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.desired.provenance import Claim, Provenance
from gpuruntime.meta import EMPTY, Condition, FrozenDict, ObjectKey, ObjectMeta
from gpuruntime.service.compat.cluster import stock_of, stocks_of, vm_of

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


def test_a_stock_has_a_status_and_a_message_if_it_is_not_available() -> None:
    ready, waiting = stock_of(unit("a", "stock", READY)), stock_of(unit("b", "stock", WAITING))
    failed = stock_of(unit("c", "stock", GPUUnitStatus(phase="Failed")))

    assert (ready.status, ready.message, ready.gpu_num, ready.cpu) == ("available", None, 1, "4")
    assert (waiting.status, waiting.message) == ("creating", "no room")
    assert failed.status == "failed"


def test_the_stock_of_a_vm_is_listed_once_during_the_hand_off_and_after() -> None:
    claim = Claim("uid", "op", ObjectKey("active", "vm")).annotations(datetime.now(UTC))
    source = Provenance(ObjectKey("stock", "b"), "uid").annotations()
    units = [marked("a", "stock", {}), marked("b", "stock", claim), marked("vm", "active", source)]

    handed_over, claimed, after = (stocks_of(some, "stock") for some in (units, units[:2], units[::2]))

    expected = [("a", "available", None), ("b", "allocated", "vm")]
    for stocks in (handed_over, claimed, after):
        assert [(stock.id, stock.status, stock.vm_id) for stock in stocks] == expected


def test_a_vm_has_a_status_and_names_its_stock() -> None:
    source = Provenance(ObjectKey("stock", "b"), "uid").annotations()
    running, creating = vm_of(marked("vm", "active", source)), vm_of(unit("vm", "active", WAITING))

    assert (running.status, running.stock_id, running.message) == ("running", "b", None)
    assert (creating.status, creating.stock_id, creating.message) == ("creating", None, "no room")
