"""Users copy the samples, so they must be valid."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.api import GPUFunction, GPUStorage, GPUUnit, Operation, StockPool
from gpuruntime.api.operation import SEED_STOCK_UNITS, operation_name
from gpuruntime.desired.validation import spec_violations
from gpuruntime.meta.codec import decode
from gpuruntime.service.operations.record import request_hash
from gpuruntime.service.stock.seed import SeedStock
from gpuruntime.testing import ClusterAccess

SAMPLES = Path(__file__).resolve().parents[2] / "manifests" / "samples"
KINDS = {kind.KIND.kind: kind for kind in (GPUFunction, GPUStorage, GPUUnit, StockPool, Operation)}


def samples() -> list[Path]:
    return sorted(SAMPLES.glob("*.yaml"))


def read(path: Path) -> dict[str, Any]:
    document = yaml.safe_load(path.read_text())
    assert isinstance(document, dict)
    return document


def test_there_is_a_sample_of_each_kind() -> None:
    kinds = {read(path)["kind"] for path in samples()}

    assert kinds == set(KINDS)


@pytest.mark.parametrize("path", samples(), ids=lambda path: path.stem)
def test_a_real_server_accepts_every_field_of_a_sample(product: ClusterAccess, kube_namespace: str, path: Path) -> None:
    document = read(path)
    document["metadata"]["namespace"] = kube_namespace
    kind = KINDS[document["kind"]]

    stored = product.admin().create(f"{kind.KIND.path(kube_namespace)}?dryRun=All&fieldValidation=Strict", document)

    decoded = decode(kind, stored)
    assert decoded.metadata.name == document["metadata"]["name"]
    assert not isinstance(decoded, GPUUnit | GPUFunction) or spec_violations(decoded.spec) == ()


def test_the_sample_of_an_operation_is_what_the_api_would_write() -> None:
    operation = decode(Operation, read(SAMPLES / "operation.yaml"))

    request = decode(SeedStock, operation.spec.request)

    assert operation.metadata.name == operation_name(operation.spec.operation_id)
    assert operation.spec.type == SEED_STOCK_UNITS
    assert operation.spec.request_hash == request_hash(SEED_STOCK_UNITS, request)
