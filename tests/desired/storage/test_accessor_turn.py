import pytest

from gpuruntime.api.gpustorage import READ_WRITE_MANY, READ_WRITE_ONCE, READ_WRITE_ONCE_POD, GPUStorage
from gpuruntime.api.names import ATTACHED_TO
from gpuruntime.desired.storage.accessor_turn import AccessorPlace, accessor_place, must_leave_first
from gpuruntime.meta import decode

ANYWHERE = AccessorPlace.ANYWHERE


@pytest.mark.parametrize(
    ("mode", "with_unit", "must_leave"),
    [
        (READ_WRITE_MANY, ANYWHERE, False),
        (READ_WRITE_ONCE, AccessorPlace.UNIT_NODE, False),
        (READ_WRITE_ONCE_POD, AccessorPlace.NOT_AT_ALL, True),
    ],
)
def test_the_unit_wins_over_the_accessor(mode: str, with_unit: AccessorPlace, must_leave: bool) -> None:
    free, copied, mounted = (
        decode(GPUStorage, {"metadata": {"name": "a", "annotations": lock}, "spec": {"size": 1, "accessMode": mode}})
        for lock in ({}, {ATTACHED_TO: "gpustorages/b"}, {ATTACHED_TO: "gpuunits/b"})
    )

    assert (accessor_place(free), accessor_place(copied), accessor_place(mounted)) == (ANYWHERE, ANYWHERE, with_unit)
    assert must_leave_first(mounted) is must_leave
