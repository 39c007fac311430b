from typing import Any

import pytest

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import Change
from gpuruntime.control.informers.indexer import Indexer
from gpuruntime.control.informers.storage import eager
from gpuruntime.reconcilers.foreign_status import status_touched

UNITS = eager(GPUUnit)
OURS = {"phase": "Ready", "lastSyncTime": "2026-01-01T00:00:00Z"}


def change(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Change[GPUUnit]:
    def entry(status: dict[str, Any] | None) -> Any:
        metadata = {"name": "demo", "namespace": "a", "uid": "u", "resourceVersion": "1"}
        unit = {"metadata": metadata, "spec": {"specName": "g1.1"}, "status": status}
        return None if status is None else Indexer(UNITS, ()).entry(unit, 10)

    return Change(UNITS, entry(before), entry(after))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (OURS, False),
        ({"phase": "Failed", "lastSyncTime": "2026-01-01T00:00:01Z"}, False),
        ({**OURS, "phase": "Failed"}, True),
        ({}, True),
    ],
    ids=["unchanged", "written by a reconciler", "edited by hand", "wiped"],
)
def test_a_status_that_changed_without_a_new_time_is_foreign(after: dict[str, Any], expected: bool) -> None:
    assert status_touched(change(OURS, after)) is expected


def test_an_object_that_is_added_or_deleted_has_no_foreign_status() -> None:
    assert not status_touched(change(None, OURS))
    assert not status_touched(change(OURS, None))
