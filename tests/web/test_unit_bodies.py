"""What bodies of units stand for."""

import pytest

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import POOL_LABEL
from gpuruntime.meta import ObjectMeta
from gpuruntime.meta.codec import decode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.service.unit_changes import complete_unit_change
from gpuruntime.web.unit_bodies import CreateUnitBody, UpdateUnitBody

LABELS = FrozenDict({"tier": "gold", POOL_LABEL: "warm"})
UNIT = GPUUnit(ObjectMeta(name="a", namespace="n", labels=LABELS), GPUUnitSpec("g1.1", image="one"))


@pytest.mark.parametrize("labels", [None, {}])
def test_no_labels_removes_all_but_those_of_the_product(labels: dict[str, str] | None) -> None:
    body = decode(UpdateUnitBody, {"labels": labels})

    patch = complete_unit_change(UNIT, body.request("a", "n", "").change)

    assert patch["metadata"] == {"labels": {"tier": None}}


def test_labels_that_are_left_out_stay() -> None:
    body = decode(UpdateUnitBody, {"image": "two"})

    patch = complete_unit_change(UNIT, body.request("a", "n", "").change)

    assert (patch["spec"]["image"], "metadata" in patch) == ("two", False)


@pytest.mark.parametrize(("is_cold", "named"), [(False, ["cpu", "gpu"]), (True, [])])
def test_an_envelope_is_for_a_cold_start_only(is_cold: bool, named: list[str]) -> None:
    plain = {"name": "a", "specName": "g1.1", "image": "one", "coldStart": is_cold}

    body = decode(CreateUnitBody, {**plain, "cpu": "1", "gpu": 0, "memory": None})

    assert [problem.partition(":")[0] for problem in body.problems()] == named
