import pytest

from gpuruntime.api.rest.machines import DeleteStocks, NewStocks, NewVM, Stock
from gpuruntime.service.compat.memory import MemoryMachines
from gpuruntime.service.errors import (
    InsufficientCapacityError,
    InvalidRequestError,
    ObjectNotFoundError,
    OperationConflictError,
)

PAIR = NewStocks("g1.1", 2, cpu="4", memory="16Gi", gpu_type="RTX4090", gpu_num=1)


def by_id(stocks: tuple[Stock, ...]) -> dict[str, str]:
    return {stock.id: stock.status for stock in stocks}


async def test_a_vm_takes_the_oldest_stock_and_returns_it() -> None:
    machines = MemoryMachines()
    first, second = (await machines.create_stocks("a", PAIR)).stocks

    made = await machines.create_vm("b", NewVM(tenant_id="t", spec_name="g1.1"))
    taken = by_id(machines.stocks())
    await machines.delete_vm("c", made.vm.id)

    assert (made.vm.stock_id, made.vm.tenant_id, made.vm.gpu_num, made.vm.status) == (first.id, "t", 1, "running")
    assert taken == {first.id: "allocated", second.id: "available"}
    assert by_id(machines.stocks()) == {first.id: "available", second.id: "available"}
    assert machines.vms() == ()


async def test_a_request_is_executed_once_and_another_one_conflicts() -> None:
    machines = MemoryMachines()
    await machines.create_stocks("a", PAIR)
    made = await machines.create_vm("b", NewVM(spec_name="g1.1"))

    again = await machines.create_vm("b", NewVM(spec_name="g1.1"))
    with pytest.raises(OperationConflictError, match="operationID 'b'"):
        await machines.create_vm("b", NewVM(spec_name="g1.1", tenant_id="t"))
    await machines.delete_vm("c", made.vm.id)
    late = await machines.create_vm("b", NewVM(spec_name="g1.1"))
    seeded = await machines.create_stocks("a", PAIR)

    assert (again.vm, again.is_replay) == (made.vm, True)
    assert (late.vm.id, late.vm.status, late.vm.deleted) == (made.vm.id, "deleted", True)
    assert (len(seeded.stocks), seeded.is_replay, len(machines.stocks())) == (2, True, 2)


async def test_a_named_stock_is_taken_or_none() -> None:
    machines = MemoryMachines()
    _, second = (await machines.create_stocks("a", PAIR)).stocks

    made = await machines.create_vm("b", NewVM(stock_id=second.id))
    with pytest.raises(InsufficientCapacityError, match=second.id):
        await machines.create_vm("c", NewVM(stock_id=second.id))

    assert made.vm.stock_id == second.id
    assert (await machines.vm(made.vm.id)) == made.vm


async def test_a_refused_request_leaves_nothing_behind_and_its_operation_id_free() -> None:
    machines = MemoryMachines()

    with pytest.raises(InsufficientCapacityError, match=r"'g1\.1'"):
        await machines.create_vm("a", NewVM(spec_name="g1.1"))
    with pytest.raises(InvalidRequestError, match="stockID"):
        await machines.create_vm("a", NewVM())
    with pytest.raises(ObjectNotFoundError, match="missing"):
        await machines.delete_vm("a", "missing")
    with pytest.raises(ObjectNotFoundError, match="missing"):
        await machines.vm("missing")
    created = await machines.create_stocks("a", PAIR)

    assert (created.is_replay, created.is_ready, machines.age()) == (False, True, 0.0)


async def test_stocks_are_deleted_all_or_none_and_never_those_in_use() -> None:
    machines = MemoryMachines()
    first, _ = (await machines.create_stocks("a", PAIR)).stocks
    await machines.create_vm("b", NewVM(spec_name="g1.1"))

    with pytest.raises(InsufficientCapacityError, match=r"has 1 .*2"):
        await machines.delete_stocks("c", DeleteStocks("g1.1", 2))
    deleted = await machines.delete_stocks("c", DeleteStocks("g1.1", 1))
    taken = machines.take()

    assert (deleted.number, deleted.status) == (1, "deleted")
    assert by_id(machines.stocks()) == {first.id: "allocated"}
    assert (taken.active_units, taken.stock_units, taken.ready_stock_units) == (1, 0, 0)
