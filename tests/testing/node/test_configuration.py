import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.testing.cluster.pki import KeyPair
from gpuruntime.testing.node import configuration
from gpuruntime.testing.node.addresses import NUMBERS, Addresses
from gpuruntime.testing.node.configuration import NodeLayout

LAYOUT = NodeLayout(
    name="real-1",
    directory=Path("/work/node"),
    binaries=Path("/cache/node"),
    images=Path("/work/node/images"),
    runc=Path("/usr/sbin/runc"),
    addresses=Addresses(7),
    authority=Path("/work/pki/ca.crt"),
    serving=KeyPair(Path("/work/pki/kubelet.crt"), Path("/work/pki/kubelet.key")),
    api_port=40001,
)


def texts(layout: NodeLayout) -> list[str]:
    documents: list[Any] = [
        configuration.kubelet(layout),
        configuration.kube_proxy(layout),
        configuration.cni(layout),
        configuration.init_plan(layout, {}),
    ]
    return [*(json.dumps(document) for document in documents), configuration.containerd(layout)]


@given(number=st.sampled_from(NUMBERS), other=st.sampled_from(NUMBERS))
def test_no_address_of_a_node_depends_on_another_number(number: int, other: int) -> None:
    written = "".join(texts(evolve(LAYOUT, addresses=Addresses(number))))

    assert f"198.18.{number}.0/24" in written
    if other != number:
        assert f"198.18.{other}.0/24" not in written
        assert f"198.19.{other}.2" not in written


@given(path=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_containerd_reads_every_path_as_it_is(path: str) -> None:
    layout = evolve(LAYOUT, binaries=Path("/", path))

    document = tomllib.loads(configuration.containerd(layout))

    assert document["plugins"]["io.containerd.cri.v1.runtime"]["cni"]["bin_dirs"] == [str(layout.binaries)]


def test_containerd_writes_below_directories_that_the_node_covers() -> None:
    document = tomllib.loads(configuration.containerd(LAYOUT))

    paths = [document["root"], document["state"], document["grpc"]["address"]]
    paths.append(document["plugins"]["io.containerd.internal.v1.opt"]["path"])
    covered = configuration.init_plan(LAYOUT, {})["covered"]
    assert all(any(path.startswith(f"{one}/") for one in covered) for path in paths)


def test_every_registry_is_the_nodes_own() -> None:
    document = tomllib.loads(configuration.hosts())

    assert [document["server"]] == list(document["host"])
    assert document["server"].startswith("http://127.0.0.1:")


def test_fields_of_the_kubelet_can_be_replaced_and_added() -> None:
    layout = evolve(LAYOUT, kubelet={"maxPods": 5, "failSwapOn": True})

    document = configuration.kubelet(layout)

    assert (document["maxPods"], document["failSwapOn"]) == (5, True)
    assert document["cgroupRoot"] == "/gpurt-7"


def test_labels_and_taints_reach_the_kubelet() -> None:
    layout = evolve(LAYOUT, labels={"zone": "a"}, taints={"zone": "NoSchedule"})

    assert "--node-labels=gpuruntime.local/real-node=true,zone=a" in configuration.kubelet_command(layout)
    assert configuration.kubelet(layout)["registerWithTaints"] == [{"key": "zone", "effect": "NoSchedule"}]


@pytest.mark.parametrize("program", ["containerd", "kube-proxy", "kubelet"])
def test_each_program_is_of_the_nodes_binaries_and_has_a_log(program: str) -> None:
    programs = {one["name"]: one for one in configuration.init_plan(LAYOUT, {})["programs"]}

    assert programs[program]["argv"][0] == f"/cache/node/{program}"
    assert programs[program]["log"] == f"/work/node/logs/{program}.log"


def test_programs_find_each_other_on_a_path_with_the_administrators_directories() -> None:
    path = configuration.init_plan(LAYOUT, {"PATH": "/given"})["environment"]["PATH"].split(":")

    assert path[:2] == ["/cache/node", "/given"]
    assert "/usr/sbin" in path
