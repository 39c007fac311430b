import pytest

from gpuruntime.api.gpustorage import READ_WRITE_MANY, READ_WRITE_ONCE, GPUStorage
from gpuruntime.desired.storage.volume_use import VolumeUse, excludes_others, uses_of_pod, uses_of_template
from gpuruntime.kube.builtin.pods import PodSpec
from gpuruntime.meta import decode

VOLUMES = [
    {"name": "a", "emptyDir": {}},
    {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "c", "persistentVolumeClaim": {"claimName": "model", "readOnly": True}},
]


def test_the_claims_of_a_pod_are_those_of_its_template() -> None:
    expected = (VolumeUse("data"), VolumeUse("model", read_only=True))

    assert uses_of_pod({"volumes": VOLUMES}) == expected
    assert uses_of_template(decode(PodSpec, {"volumes": VOLUMES}).volumes) == expected
    assert uses_of_pod({}) == ()


@pytest.mark.parametrize(
    ("mode", "use", "expected"),
    [
        (READ_WRITE_ONCE, VolumeUse("data"), True),
        (READ_WRITE_ONCE, VolumeUse("data", read_only=True), True),
        (READ_WRITE_MANY, VolumeUse("data"), True),
        (READ_WRITE_MANY, VolumeUse("data", read_only=True), False),
        (READ_WRITE_ONCE, VolumeUse("other"), False),
    ],
)
def test_a_use_excludes_others_unless_it_only_reads_what_many_nodes_can_have(
    mode: str, use: VolumeUse, expected: bool
) -> None:
    storage = decode(GPUStorage, {"metadata": {"name": "data"}, "spec": {"size": 1, "accessMode": mode}})

    assert excludes_others(storage, [use]) is expected
