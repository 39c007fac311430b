from typing import Any

import pytest

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.meta import EMPTY, decode, freeze
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.units.update import unit_patch

PORTS = [{"name": "http", "port": 80}, {"name": "rpc", "port": 81}]


def unit(**spec: Any) -> GPUUnit:
    body = {"specName": "g1.1", "image": "nginx", "template": {"ports": PORTS}, "access": {"primaryPort": "http"}}
    labels = {"app.kubernetes.io/name": "ours", "mine": "1"}
    return decode(GPUUnit, {"metadata": {"name": "demo", "labels": labels}, "spec": {**body, **spec}})


def patch_for(change: dict[str, Any]) -> Any:
    return unit_patch(unit(), freeze(change))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"spec": {}},
        {"spec": {"image": "nginx", "template": {}, "access": {"scheme": "http"}}},
        {"spec": {"template": {"ports": [{**port, "protocol": "TCP"} for port in PORTS], "envs": []}}},
        {"metadata": {"labels": {"mine": "1"}}},
    ],
)
def test_a_change_without_effect_is_an_empty_patch(change: dict[str, Any]) -> None:
    assert patch_for(change) == EMPTY


def test_a_primary_port_that_is_removed_is_reset() -> None:
    change = {"spec": {"template": {"ports": PORTS[1:]}}}

    assert patch_for(change) == {"spec": {"template": {"ports": (PORTS[1],)}, "access": {"primaryPort": None}}}


def test_null_removes_the_whole_access() -> None:
    change = {"spec": {"template": {"ports": PORTS[1:]}, "access": None}}

    assert patch_for({"spec": {"access": None}}) == {"spec": {"access": None}}
    assert patch_for(change) == {"spec": {"template": {"ports": (PORTS[1],)}, "access": None}}


def test_labels_are_replaced_except_those_of_the_product() -> None:
    assert patch_for({"metadata": {"labels": {"new": "2"}}}) == {"metadata": {"labels": {"mine": None, "new": "2"}}}
    assert patch_for({"metadata": {"labels": {}}}) == {"metadata": {"labels": {"mine": None}}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"spec": {"image": None}}, "image"),
        ({"spec": {"access": {"primaryPort": "web"}}}, "access.primaryPort"),
        ({"spec": {"template": {"envs": [{"name": "GPU_COUNT", "value": "8"}]}}}, "template.envs[0].name"),
        ({"metadata": {"labels": {"runtime.lokiwager.io/pool": "theirs"}}}, "labels"),
        ({"metadata": {"labels": {"x": "no value!"}}}, "labels[x]"),
    ],
)
def test_an_invalid_unit_is_refused_by_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        patch_for(change)

    assert [found.path for found in refused.value.violations] == [field]
