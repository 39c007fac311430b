"""Bodies of units, and the requests that they become."""

from typing import Any

import pytest

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import POOL_LABEL
from gpuruntime.api.rest.gpu_units import CreateUnitBody, UpdateUnitBody
from gpuruntime.endpoints.server.body import decoded
from gpuruntime.endpoints.server.errors import ApiError
from gpuruntime.meta import ObjectMeta
from gpuruntime.meta.codec import decode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.schema import violations
from gpuruntime.service.units.update import unit_patch
from gpuruntime.web.resources.object_resource import change_of

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
