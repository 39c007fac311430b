from typing import Any

import pytest

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.meta import EMPTY, decode, freeze
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.units.update import complete_unit_change

PORTS = [{"name": "http", "port": 80}, {"name": "rpc", "port": 81}]


def unit(**spec: Any) -> GPUUnit:
    body = {"specName": "g1.1", "image": "nginx", "template": {"ports": PORTS}, "access": {"primaryPort": "http"}}
    labels = {"app.kubernetes.io/name": "ours", "mine": "1"}
    return decode(GPUUnit, {"metadata": {"name": "demo", "labels": labels}, "spec": {**body, **spec}})


def completed(change: dict[str, Any]) -> Any:
    return complete_unit_change(unit(), freeze(change))


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
def test_what_changes_nothing_is_no_patch(change: dict[str, Any]) -> None:
    assert completed(change) == EMPTY


def test_a_primary_port_that_vanished_gives_way_to_the_first_one() -> None:
    change = {"spec": {"template": {"ports": PORTS[1:]}}}

    assert completed(change) == {"spec": {"template": {"ports": (PORTS[1],)}, "access": {"primaryPort": None}}}


def test_an_access_that_is_removed_is_removed_as_a_whole() -> None:
    change = {"spec": {"template": {"ports": PORTS[1:]}, "access": None}}

    assert completed({"spec": {"access": None}}) == {"spec": {"access": None}}
    assert completed(change) == {"spec": {"template": {"ports": (PORTS[1],)}, "access": None}}


def test_labels_are_replaced_but_for_those_of_the_product() -> None:
    assert completed({"metadata": {"labels": {"new": "2"}}}) == {"metadata": {"labels": {"mine": None, "new": "2"}}}
    assert completed({"metadata": {"labels": {}}}) == {"metadata": {"labels": {"mine": None}}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"spec": {"image": None}}, "image"),
        ({"spec": {"access": {"primaryPort": "web"}}}, "access.primaryPort"),
        ({"spec": {"template": {"envs": [{"name": "GPU_COUNT", "value": "8"}]}}}, "template.envs[0].name"),
        ({"metadata": {"labels": {"runtime.lokiwager.io/pool": "theirs"}}}, "labels"),
        ({"metadata": {"labels": {"x": "no value!"}}}, "labels"),
    ],
)
def test_an_impossible_unit_is_refused_by_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        completed(change)

    assert [problem.partition(":")[0] for problem in refused.value.problems] == [field]
