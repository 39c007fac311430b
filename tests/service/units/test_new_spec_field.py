"""A field that is added to the envelope, and to no other file, is everywhere."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import gpuruntime

PACKAGE: Final = Path(gpuruntime.__file__).parent
DECLARATION: Final = '''
    shm_size: Memory = None
    """Size of /dev/shm, such as 8Gi."""
'''
PROGRAM: Final = """
from attrs import evolve

from gpuruntime.api import GPUUnit, GPUUnitSpec, Namespaces, Operation, OperationSpec, StockPool, StockPoolSpec
from gpuruntime.api.rest.gpu_units import CreateUnitBody, UnitView
from gpuruntime.api.rest.stock_pools import CreatePoolBody, PoolView, UpdatePoolBody
from gpuruntime.api.rest.stock_units import SeedStockBody
from gpuruntime.desired.pools.units import stock_unit
from gpuruntime.meta import ObjectMeta, decode, encode
from gpuruntime.schema import definition, violations
from gpuruntime.service.stock.seed import seeded_unit
from gpuruntime.service.units.create import active_unit
from gpuruntime.service.units.delete import DeleteUnit, returned_unit, stock_to_return
from gpuruntime.web.openapi.schemas import Components
from gpuruntime.web.resources.stock_units import seed_request
from gpuruntime.web.resources.unit_models import create_request, unit_view

CLAIM = {"name": "demo", "specName": "g1.1", "image": "nginx"}
NEW = {"specName": "g1.1", "shmSize": "8Gi"}
namespaces, operation = Namespaces(), Operation(ObjectMeta(uid="1"), OperationSpec("order", "hash", "create_gpu_unit"))

for kind in (GPUUnit, StockPool):
    spec = definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert "Size of /dev/shm" in spec["properties"]["shmSize"]["description"], kind
    is_immutable = any("shmSize is immutable" in rule["message"] for rule in spec["x-kubernetes-validations"])
    assert is_immutable == (kind is GPUUnit), kind

components = Components()
for body in (CreateUnitBody, CreatePoolBody, UpdatePoolBody, SeedStockBody):
    components.request(body)
for view in (UnitView, PoolView):
    components.response(view)
for name in ("CreateUnitBody", "CreatePoolBody", "UpdatePoolBody", "SeedStockBody", "UnitView", "PoolView"):
    assert "shmSize" in components.all()[name]["properties"], name

(only_stock,) = violations(CLAIM | NEW, CreateUnitBody)
assert only_stock.path == "shmSize"
cold = create_request(decode(CreateUnitBody, {**CLAIM, **NEW, "coldStart": True}), namespaces)
assert active_unit(cold, operation, None).spec.shm_size == "8Gi"

claim = create_request(decode(CreateUnitBody, CLAIM), namespaces)
spec = decode(StockPoolSpec, {**NEW, "replicas": 1})
pool = StockPool(ObjectMeta(name="warm", namespace="runtime-stock", uid="2"), spec)
assert active_unit(claim, operation, stock_unit(pool, "warm-1")).spec.shm_size == "8Gi"

seed = seed_request(decode(SeedStockBody, {**NEW, "replicas": 1}), namespaces)
stock = seeded_unit(seed, operation, 1)
active = active_unit(claim, operation, evolve(stock, metadata=evolve(stock.metadata, uid="3")))
assert encode(unit_view(active, namespaces))["shmSize"] == "8Gi"
stored = decode(DeleteUnit, encode(DeleteUnit("demo", returned=stock_to_return(active))))
assert returned_unit(stored.returned).spec == decode(GPUUnitSpec, NEW)
"""


def test_a_field_that_only_the_envelope_declares_is_in_crds_bodies_and_views_and_survives_the_hand_off(
    tmp_path: Path,
) -> None:
    copy = tmp_path / "gpuruntime"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "testing", "swagger"))
    declarations = copy / "api" / "envelope.py"
    text = declarations.read_text()
    before = "    gpu_type: GpuType = None\n"
    assert text.count(before) == 1
    declarations.write_text(text.replace(before, f"{DECLARATION.lstrip(chr(10))}{before}"))

    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
