"""Every field of a spec is in its bodies and views, and a reservation survives the hand-off, whatever its fields are.

No field of a spec is named here, except to leave it out.
"""

from typing import Any

import pytest
from attrs import evolve, fields, fields_dict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuruntime.api.envelope import Reservation
from gpuruntime.api.gpufunction import GPUFunctionSpec
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import CREATE_GPU_UNIT, Operation, OperationSpec
from gpuruntime.api.projection import field_values
from gpuruntime.api.rest.functions import CreateFunctionBody, FunctionView, UpdateFunctionBody
from gpuruntime.api.rest.gpu_units import CreateUnitBody, UnitView, UpdateUnitBody
from gpuruntime.api.rest.stock_pools import CreatePoolBody, PoolView, UpdatePoolBody
from gpuruntime.api.rest.stock_units import SeedStockBody
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.desired.pools.units import stock_unit
from gpuruntime.meta import ObjectMeta, Struct, decode, encode, wire_name
from gpuruntime.schema import schema_of
from gpuruntime.service.stock.seed import seeded_unit
from gpuruntime.service.units.create import CreateUnit, active_unit
from gpuruntime.service.units.delete import DeleteUnit, returned_unit, stock_to_return
from gpuruntime.web.resources.stock_units import seed_request
from gpuruntime.web.resources.unit_models import create_request, unit_view
from tests.schema.generated_objects import valid

NAMESPACES = Namespaces()
OPERATION = Operation(ObjectMeta(name="op", uid="1-2-3"), OperationSpec("order", "hash", CREATE_GPU_UNIT))

# A spec with a value in every field is large.
FEW = settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])


def full(cls: type[Struct]) -> st.SearchStrategy[dict[str, Any]]:
    """JSON of a type in which every field has a value."""
    schema = schema_of(cls, described=False)
    return st.fixed_dictionaries({name: valid(inner) for name, inner in schema["properties"].items()})


def requested(spec: dict[str, Any]) -> CreateUnit:
    return create_request(decode(CreateUnitBody, {"image": "nginx", **spec, "name": "demo"}), NAMESPACES)


def wire_fields(cls: type[Struct], without: type[Struct] = Struct) -> set[str]:
    left_out = fields_dict(without)
    return {wire_name(attribute) for attribute in fields(cls) if attribute.name not in left_out}


@pytest.mark.parametrize(
    ("spec", "carriers"),
    [
        (GPUUnitSpec, [CreateUnitBody, UnitView]),
        (StockPoolSpec, [CreatePoolBody, UpdatePoolBody, PoolView]),
        (GPUFunctionSpec, [CreateFunctionBody, UpdateFunctionBody, FunctionView]),
        (Reservation, [SeedStockBody, GPUUnitSpec, StockPoolSpec]),
    ],
)
def test_every_field_of_a_spec_is_in_its_bodies_and_views(spec: type[Struct], carriers: list[type[Struct]]) -> None:
    for carrier in carriers:
        assert wire_fields(spec) <= wire_fields(carrier), carrier


def test_an_update_of_a_unit_has_every_field_but_those_of_the_reservation() -> None:
    assert wire_fields(UpdateUnitBody) - {"labels"} == wire_fields(GPUUnitSpec, Reservation)


@FEW
@given(full(Reservation), full(Reservation))
def test_a_reservation_survives_from_a_pool_to_the_active_unit(pooled: dict[str, Any], asked: dict[str, Any]) -> None:
    spec = decode(StockPoolSpec, {**pooled, "replicas": 1})
    pool = StockPool(ObjectMeta(name="warm", namespace="runtime-stock", uid="7"), spec)

    stock = stock_unit(pool, "warm-1")
    active = active_unit(requested(asked), OPERATION, stock)

    assert field_values(stock.spec, Reservation) == field_values(decode(Reservation, pooled), Reservation)
    assert field_values(active.spec, Reservation) == field_values(decode(Reservation, pooled), Reservation)


@FEW
@given(full(Reservation), full(Reservation))
def test_a_reservation_survives_from_a_seed_request_to_the_returned_stock(
    seeded: dict[str, Any], asked: dict[str, Any]
) -> None:
    seed = seed_request(decode(SeedStockBody, {**seeded, "replicas": 1}), NAMESPACES)

    stock = evolve(seeded_unit(seed, OPERATION, 1), metadata=ObjectMeta(name="s", namespace="runtime-stock", uid="8"))
    active = active_unit(requested(asked), OPERATION, stock)
    # As the Operation of the deletion stores it.
    stored = decode(DeleteUnit, encode(DeleteUnit("demo", returned=stock_to_return(active))))

    assert stored.returned is not None
    assert returned_unit(stored.returned).spec == stock.spec
    assert field_values(stock.spec, Reservation) == field_values(decode(Reservation, seeded), Reservation)


@FEW
@given(full(GPUUnitSpec), full(Reservation))
def test_an_active_unit_has_what_its_user_asked_for_and_its_view_shows_it(
    asked: dict[str, Any], reserved: dict[str, Any]
) -> None:
    stock = GPUUnit(ObjectMeta(name="s", namespace="runtime-stock", uid="8"), decode(GPUUnitSpec, reserved))

    active = active_unit(requested(asked), OPERATION, stock)
    view = encode(unit_view(active, NAMESPACES))

    expected = {**encode(decode(GPUUnitSpec, asked)), **encode(decode(GPUUnitSpec, reserved))}
    missing = {name for name, value in expected.items() if view.get(name) != value and value not in ([], {})}
    assert missing == set()
