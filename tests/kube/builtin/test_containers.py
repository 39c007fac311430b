import pytest

from gpuruntime.kube.builtin.containers import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    EnvVar,
    ResourceRequirements,
)
from gpuruntime.meta.codec import DecodeError, decode, encode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.quantities import parse_quantity


def test_resources_hold_texts_and_unquoted_numbers() -> None:
    wire = {"limits": {"cpu": 2, "memory": "1.5Gi", "nvidia.com/gpu": "1"}}

    resources = decode(ResourceRequirements, wire)

    assert parse_quantity(resources.limits["cpu"]) == parse_quantity("2000m")
    assert parse_quantity(resources.limits["memory"]).ceil() == 1536 * 1024**2
    assert encode(resources) == wire


def test_the_repr_hides_the_value_of_a_variable() -> None:
    variable = EnvVar("PASSWORD", "hunter2")

    assert repr(variable) == "EnvVar(name='PASSWORD', value=***)"
    with pytest.raises(DecodeError, match=r"expected a string, got an integer @ \$\.env\[0\]\.value"):
        decode(Container, {"name": "main", "env": [{"name": "PIN", "value": 123456}]})


def test_a_container_state_has_the_reason_of_its_termination() -> None:
    wire = {
        "name": "main",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "containerID": "containerd://1"}},
        "ready": False,
        "restartCount": 3,
        "imageID": "",
    }

    status = decode(ContainerStatus, wire)

    assert status.last_state == ContainerState(
        terminated=ContainerStateTerminated(137, reason="OOMKilled", container_id="containerd://1")
    )
    assert (status.ready, status.restart_count) == (False, 3)
    assert encode(status) == wire


def test_probes_and_security_contexts_are_arbitrary_json() -> None:
    container = Container("main", readiness_probe=FrozenDict({"httpGet": FrozenDict({"port": 8080})}))

    assert encode(container) == {"name": "main", "readinessProbe": {"httpGet": {"port": 8080}}}
