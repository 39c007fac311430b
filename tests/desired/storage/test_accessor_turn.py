import pytest

from gpuruntime.api.gpustorage import READ_WRITE_MANY, READ_WRITE_ONCE, READ_WRITE_ONCE_POD, GPUStorage
from gpuruntime.api.names import ATTACHED_TO
from gpuruntime.desired.storage.accessor_turn import followed_unit, gives_way, must_leave_first
from gpuruntime.meta import decode

UNIT, COPY = "gpuunits/demo", "gpustorages/copy"


@pytest.mark.parametrize(
    ("mode", "holder", "excluded_by", "followed"),
    [
        (READ_WRITE_ONCE, "", "", ""),
        (READ_WRITE_ONCE, UNIT, "", "demo"),
        (READ_WRITE_ONCE, COPY, COPY, ""),
        (READ_WRITE_ONCE_POD, "", "", ""),
        (READ_WRITE_ONCE_POD, UNIT, UNIT, ""),
        (READ_WRITE_ONCE_POD, COPY, COPY, ""),
        (READ_WRITE_MANY, UNIT, "", ""),
        (READ_WRITE_MANY, COPY, "", ""),
    ],
)
def test_the_accessor_gives_way_or_follows_the_unit(mode: str, holder: str, excluded_by: str, followed: str) -> None:
    lock = {ATTACHED_TO: holder} if holder else {}
    storage = decode(
        GPUStorage, {"metadata": {"name": "a", "annotations": lock}, "spec": {"size": 1, "accessMode": mode}}
    )

    assert (gives_way(storage), followed_unit(storage)) == (excluded_by, followed)
    assert must_leave_first(storage) is (mode == READ_WRITE_ONCE_POD)
