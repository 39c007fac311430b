"""The specs and revisions of a pool's stock units."""

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.desired.pools.units import is_pool, revision_of, stock_spec
from gpuruntime.meta import OwnerReference, decode, encode
from tests.desired.unit_strategies import units

PORT = {"name": "http", "port": 80}
SAID = {"specName": "g1.1", "replicas": 1, "template": {"args": ["--warm-up"], "ports": [PORT]}}


def revision(spec: dict[str, Any]) -> str:
    return revision_of(stock_spec(decode(StockPoolSpec, spec)))


@pytest.mark.parametrize(
    "same",
    [
        SAID | {"gpu": 0, "image": None, "nodeSelector": {}},
        SAID | {"template": {"args": ["--warm-up"], "ports": [PORT], "command": [], "readinessProbe": None}},
        SAID | {"template": {"args": ["--warm-up"], "ports": [PORT | {"protocol": "TCP"}]}},
        SAID | {"template": {"args": ["--warm-up"], "ports": [PORT | {"appProtocol": "h2c"}]}},
        SAID | {"storage": "1Ti", "replicas": 7},
    ],
    ids=["defaults", "defaults inside", "what the server fills in", "a newer field inside", "a newer field"],
)
def test_equivalent_specs_have_the_same_revision(same: dict[str, Any]) -> None:
    assert revision(same) == revision(SAID)


@given(units(), units())
def test_different_specs_have_different_revisions(one: GPUUnit, other: GPUUnit) -> None:
    assert (revision_of(one.spec) == revision_of(other.spec)) == (one.spec == other.spec)
    assert revision_of(decode(type(one.spec), encode(one.spec))) == revision_of(one.spec)
    assert revision_of(evolve(one.spec, gpu=one.spec.gpu + 1)) != revision_of(one.spec)


def test_an_owner_is_a_pool_by_its_kind_in_any_version() -> None:
    pool = OwnerReference(f"{StockPool.KIND.group}/v9", "StockPool", "warm", "uid-1")

    assert is_pool(pool)
    assert not is_pool(evolve(pool, api_version="example.org/v1"))
    assert not is_pool(evolve(pool, kind="Farm"))
