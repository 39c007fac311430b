"""Bodies of units, and the requests that they become."""

from typing import Any

import pytest
from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.api.names import POOL_LABEL
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.rest.gpu_units import CreateUnitBody, UpdateUnitBody
from gpuruntime.api.serverless import UnitServerless, UnitServerlessStatus
from gpuruntime.endpoints.server.body import decoded
from gpuruntime.endpoints.server.errors import ApiError
from gpuruntime.meta import ObjectMeta
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.schema import violations
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.objects.update import patched
from gpuruntime.service.units.update import unit_patch
from gpuruntime.web.resources.object_resource import change_of
from gpuruntime.web.resources.unit_models import create_request, unit_view

LABELS = FrozenDict({"tier": "gold", POOL_LABEL: "warm"})
UNIT = GPUUnit(ObjectMeta(name="a", namespace="n", labels=LABELS), GPUUnitSpec("g1.1", image="one"))


@pytest.mark.parametrize("labels", [None, {}])
def test_empty_labels_remove_all_but_those_of_the_product(labels: dict[str, str] | None) -> None:
    body = decode(UpdateUnitBody, {"labels": labels})

    patch = unit_patch(UNIT, change_of(body))

    assert patch["metadata"] == {"labels": {"tier": None}}


def test_omitted_labels_are_kept() -> None:
    body = decode(UpdateUnitBody, {"image": "two"})

    patch = unit_patch(UNIT, change_of(body))

    assert (patch["spec"]["image"], "metadata" in patch) == ("two", False)


@pytest.mark.parametrize(("is_cold", "named"), [(False, ["cpu", "gpu", "nodeSelector"]), (True, [])])
def test_a_reservation_is_valid_for_a_cold_start_only(is_cold: bool, named: list[str]) -> None:
    plain = {"name": "a", "specName": "g1.1", "image": "one", "coldStart": is_cold}

    found = violations({**plain, "cpu": "1", "gpu": 0, "memory": None, "nodeSelector": {"a": "b"}}, CreateUnitBody)

    assert [violation.path for violation in found] == named


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"template": {"envs": [{"name": "TOKEN", "value": "hid\0den"}]}}, "$.template.envs[0].value"),
        ({"template": {"args": ["fine", "hid\0den"]}}, "$.template.args[1]"),
    ],
)
def test_a_nul_character_is_rejected_by_field_and_the_value_is_not_quoted(fields: dict[str, Any], path: str) -> None:
    body = {"name": "a", "specName": "g1", "image": "i", **fields}

    with pytest.raises(ApiError) as caught:
        decoded(body, CreateUnitBody)

    assert [fault.path for fault in caught.value.details] == [path]
    assert "hid" not in caught.value.message


@pytest.mark.parametrize("memory", ["0.000000001", "512m", 16, "1e30"])
def test_invalid_memory_is_rejected_with_the_expected_range(memory: int | str) -> None:
    body = {"name": "a", "specName": "g1", "image": "i", "coldStart": True, "memory": memory}

    with pytest.raises(ApiError) as caught:
        decoded(body, CreateUnitBody)

    (fault,) = caught.value.details
    assert (fault.path, fault.rule) == ("$.memory", None)
    assert all(text in fault.message for text in ("1Mi", "1Pi", str(memory)))


@pytest.mark.parametrize(
    ("asked", "request_id", "enabled"),
    [
        # As upstream's callers send it.
        (
            {
                "enabled": True,
                "requestID": "hello",
                "minAvailableCount": 1,
                "idleTimeoutSeconds": 0,
                "minRequestCount": 0,
                "framework": {
                    "socketPath": "/tmp/serverless-framework/framework.sock",  # noqa: S108 - a volume
                    "invokePath": "/invoke",
                    "healthPath": "/healthz",
                },
            },
            "hello",
            True,
        ),
        ({"requestID": "my_model"}, "my_model", True),
        ({"requestID": "hello", "enabled": False}, "hello", False),
        ({"enabled": False}, "", False),
        ({"enabled": False, "requestID": ""}, "", False),
    ],
)
def test_a_request_id_alone_makes_a_unit_a_worker(asked: dict[str, Any], request_id: str, enabled: bool) -> None:
    body = decoded({"name": "a", "specName": "g1", "image": "i", "serverless": asked}, CreateUnitBody)

    serverless = create_request(body, Namespaces()).spec.serverless

    assert serverless is not None
    assert (serverless.request_id, serverless.enabled) == (request_id, enabled)


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ({}, "$.serverless.requestID"),
        ({"enabled": True, "minAvailableCount": 1}, "$.serverless.requestID"),
        ({"requestID": "Hello"}, "$.serverless.requestID"),
        ({"requestID": "a", "framework": {"invokePath": "invoke"}}, "$.serverless.framework.invokePath"),
        ({"requestID": "a", "framework": {"socketPath": "/run/a.sock"}}, "$.serverless.framework.socketPath"),
        ({"requestID": "a", "idleTimeoutSeconds": -1}, "$.serverless.idleTimeoutSeconds"),
        ({"requestID": "a", "surprise": 1}, "$.serverless.surprise"),
    ],
)
def test_an_invalid_worker_is_rejected_by_field(asked: dict[str, Any], path: str) -> None:
    with pytest.raises(ApiError) as caught:
        decoded({"name": "a", "specName": "g1", "image": "i", "serverless": asked}, CreateUnitBody)

    assert [fault.path for fault in caught.value.details] == [path]


def updated(unit: GPUUnit, body: dict[str, Any]) -> UnitServerless | None:
    """The section `serverless` of a unit after a PUT with this body."""
    patch = unit_patch(unit, change_of(decoded(body, UpdateUnitBody)))
    return patched(unit.spec, patch["spec"]).serverless


def test_serverless_is_kept_if_it_is_omitted_and_removed_by_null() -> None:
    worker = evolve(UNIT, spec=evolve(UNIT.spec, serverless=UnitServerless("hello", concurrency=4)))

    kept = updated(worker, {"image": "two"})
    merged = updated(worker, {"serverless": {"minAvailableCount": 2}})
    disabled = updated(worker, {"serverless": {"enabled": False}})
    removed = updated(worker, {"serverless": None})

    assert kept == UnitServerless("hello", concurrency=4)
    assert merged == UnitServerless("hello", concurrency=4, min_available_count=2)
    assert disabled == UnitServerless("hello", enabled=False, concurrency=4)
    assert removed is None
    with pytest.raises(InvalidRequestError, match=r"serverless\.requestID: expected the requestID of a function"):
        updated(UNIT, {"serverless": {"enabled": True}})


def test_a_view_shows_what_a_worker_is_and_how_it_is() -> None:
    status = UnitServerlessStatus("Ready", "hello", "/tmp/serverless-framework/a.sock", "/invoke", "/healthz")  # noqa: S108
    spec = evolve(UNIT.spec, serverless=UnitServerless("hello"))
    worker = evolve(UNIT, spec=spec, status=GPUUnitStatus(serverless=status))

    view = encode(unit_view(worker, Namespaces()))
    plain = encode(unit_view(UNIT, Namespaces()))

    assert view["serverless"]["requestID"] == "hello"
    assert (view["serverlessStatus"]["phase"], view["serverlessStatus"]["function"]) == ("Ready", "hello")
    assert plain.keys().isdisjoint({"serverless", "serverlessStatus"})
