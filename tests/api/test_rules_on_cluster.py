"""Validation of units, pools and operations by a real API server, with the CRDs generated from the types."""

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta.canonical import known_fields
from gpuruntime.meta.codec import decode, encode
from gpuruntime.schema.descriptions import class_description
from gpuruntime.schema.structural import schema_of
from gpuruntime.testing import AdminClient, ClusterAccess, RefusedError
from tests.api.invalid_specs import ACCEPTED_BY_SERVER, REJECTED_BY_SERVER, InvalidSpec, unit_with
from tests.desired.valid_units import valid_units

GROUP = "/apis/runtime.lokiwager.io/v1alpha1/namespaces"
ENVELOPE = {"specName": "g1.1", "cpu": "4", "memory": "16Gi", "gpu": 1, "gpuType": "A100"}


def create(admin: AdminClient, namespace: str, plural: str, name: str, spec: dict[str, Any]) -> str:
    """Create an object of the product; returns its path."""
    kind = {"gpuunits": "GPUUnit", "stockpools": "StockPool", "operations": "Operation"}[plural]
    body = {"apiVersion": "runtime.lokiwager.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    admin.create(f"{GROUP}/{namespace}/{plural}?fieldValidation=Strict", body)
    return f"{GROUP}/{namespace}/{plural}/{quote(name)}"


def explain(access: ClusterAccess, *arguments: str) -> str:
    """The output of kubectl explain. Other tests may have kinds of the same name in other groups."""
    return access.kubectl("explain", "--api-version=runtime.lokiwager.io/v1alpha1", *arguments)


@pytest.mark.parametrize("invalid", REJECTED_BY_SERVER, ids=lambda invalid: invalid.name)
def test_an_invalid_spec_is_rejected(product: ClusterAccess, kube_namespace: str, invalid: InvalidSpec) -> None:
    unit = unit_with(invalid.spec, kube_namespace)

    with pytest.raises(RefusedError) as refused:
        product.admin().create(f"{GROUP}/{kube_namespace}/gpuunits?dryRun=All&fieldValidation=Strict", unit)

    assert refused.value.status == 422


@pytest.mark.parametrize("invalid", ACCEPTED_BY_SERVER, ids=lambda invalid: invalid.name)
def test_specs_that_only_the_operator_rejects_are_stored(
    product: ClusterAccess, kube_namespace: str, invalid: InvalidSpec
) -> None:
    unit = unit_with(invalid.spec, kube_namespace)

    stored = product.admin().create(f"{GROUP}/{kube_namespace}/gpuunits?dryRun=All&fieldValidation=Strict", unit)

    assert stored["spec"]["specName"] == "g1.1"


@given(unit=valid_units(namespace="default"))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_unit_without_violations_is_stored_as_it_is(product: ClusterAccess, unit: GPUUnit) -> None:
    admin = product.admin()

    stored = admin.create(f"{GROUP}/default/gpuunits?dryRun=All&fieldValidation=Strict", encode(unit))

    assert known_fields(decode(GPUUnit, stored).spec) == known_fields(unit.spec)


@pytest.mark.parametrize(
    ("field", "other"), [("specName", "g2.1"), ("cpu", "8"), ("memory", "1Gi"), ("gpu", 2), ("gpuType", "H100")]
)
def test_the_envelope_of_a_unit_can_be_neither_changed_nor_removed(
    product: ClusterAccess, kube_namespace: str, field: str, other: Any
) -> None:
    admin = product.admin()
    path = create(admin, kube_namespace, "gpuunits", "fixed", ENVELOPE)

    with pytest.raises(RefusedError) as changed:
        admin.merge(path, {"spec": {field: other}})
    with pytest.raises(RefusedError) as removed:
        admin.merge(path, {"spec": {field: None}})

    assert field in str(changed.value)
    assert field in str(removed.value)


@pytest.mark.parametrize(("field", "value"), [("cpu", "8"), ("memory", "1Gi"), ("gpu", 2), ("gpuType", "H100")])
def test_the_envelope_of_a_unit_cannot_be_added_to(
    product: ClusterAccess, kube_namespace: str, field: str, value: Any
) -> None:
    admin = product.admin()
    path = create(admin, kube_namespace, "gpuunits", "fixed", {"specName": "g1.1"})

    with pytest.raises(RefusedError) as added:
        admin.merge(path, {"spec": {field: value}})

    assert field in str(added.value)


def test_what_runs_in_a_unit_can_be_changed(product: ClusterAccess, kube_namespace: str) -> None:
    admin = product.admin()
    path = create(admin, kube_namespace, "gpuunits", "changing", ENVELOPE)

    changed = admin.merge(path, {"spec": {"image": "python:3.12", "template": {"command": ["python"]}}})

    assert changed["metadata"]["generation"] == 2


def test_a_unit_name_may_be_invalid_as_label_value_and_service_name(
    product: ClusterAccess, kube_namespace: str
) -> None:
    name = ".".join(["long-name"] * 25)

    path = create(product.admin(), kube_namespace, "gpuunits", name, {"specName": "g1.1"})

    assert product.admin().get(path)["metadata"]["name"] == name


def test_a_pool_can_be_scaled_by_kubectl(product: ClusterAccess, kube_namespace: str) -> None:
    path = create(product.admin(), kube_namespace, "stockpools", "warm", {"specName": "g1.1", "replicas": 1})

    product.kubectl("scale", "-n", kube_namespace, "stockpools.runtime.lokiwager.io/warm", "--replicas=3")

    assert product.admin().get(path)["spec"]["replicas"] == 3


def test_a_pool_can_change_all_of_its_spec(product: ClusterAccess, kube_namespace: str) -> None:
    path = create(product.admin(), kube_namespace, "stockpools", "warm", {**ENVELOPE, "replicas": 1})

    changed = product.admin().merge(path, {"spec": {"specName": "g2.1", "memory": "1Gi", "gpu": 2, "cpu": None}})

    assert changed["metadata"]["generation"] == 2


def test_the_request_of_an_operation_can_be_removed_but_not_restored(
    product: ClusterAccess, kube_namespace: str
) -> None:
    admin = product.admin()
    request = {"specName": "g1.1", "template": {"envs": [{"name": "TOKEN", "value": "secret"}]}}
    spec = {"operationID": "one", "requestHash": "1", "type": "create_gpu_unit", "request": request}
    path = create(admin, kube_namespace, "operations", "op-1", spec)
    stored = admin.get(path)["spec"]["request"]

    dropped = admin.merge(path, {"spec": {"request": None}})
    with pytest.raises(RefusedError, match="request"):
        admin.merge(path, {"spec": {"request": request}})

    assert stored == request
    assert "request" not in dropped["spec"]


@pytest.mark.parametrize("field", ["operationID", "requestHash", "type"])
def test_the_spec_of_an_operation_is_immutable(product: ClusterAccess, kube_namespace: str, field: str) -> None:
    admin = product.admin()
    spec = {"operationID": "one", "requestHash": "1", "type": "create_gpu_unit"}
    path = create(admin, kube_namespace, "operations", "op-2", spec)

    with pytest.raises(RefusedError, match=field):
        admin.merge(path, {"spec": {field: "other"}})


def test_kubectl_explains_the_unit_template(product: ClusterAccess) -> None:
    text = " ".join(explain(product, "gpuunit.spec.template").split())

    properties = schema_of(UnitTemplate)["properties"]
    described = [class_description(UnitTemplate), *(properties[name]["description"] for name in ("envs", "ports"))]
    assert all(" ".join(description.split()) in text for description in described)


@pytest.mark.parametrize("kind", ["gpuunit", "gpustorage", "stockpool", "operation"])
def test_kubectl_explains_every_field(product: ClusterAccess, kind: str) -> None:
    text = explain(product, "--recursive", f"{kind}.spec") + explain(product, f"{kind}.status")

    assert "<no description>" not in text
    assert "DESCRIPTION:\n    <empty>" not in text
