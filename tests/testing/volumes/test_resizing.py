"""The steps of a resize, one state after the other."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import DynamicObject, decode
from gpuruntime.testing.volumes.faults import ResizeFault
from gpuruntime.testing.volumes.objects import PERSISTENT_VOLUME
from gpuruntime.testing.volumes.resizing import PodUse, RaiseVolume, WriteStatus, next_step

NOW = datetime(2026, 1, 1, tzinfo=UTC)
USED_BY = "testing.gpuruntime.local/used-before-resize"
STALL, REFUSE, RESTART = ResizeFault("stall"), ResizeFault("refuse", "too large"), ResizeFault("restart")
OLD, NEW = (PodUse("n", uid, "Running", ("data",)) for uid in ("old", "new"))


def claim(requested: str, capacity: str, **status: Any) -> PersistentVolumeClaim:
    spec = {"resources": {"requests": {"storage": requested}}}
    body = {"metadata": {"name": "data"}, "spec": spec, "status": {"capacity": {"storage": capacity}, **status}}
    return decode(PersistentVolumeClaim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **body})


def volume(capacity: str, *, used_by: str = "") -> DynamicObject:
    meta = {"name": "v", "resourceVersion": "7", "annotations": {USED_BY: used_by} if used_by else {}}
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta}
    return DynamicObject.decode(PERSISTENT_VOLUME, {**body, "spec": {"capacity": {"storage": capacity}}})


@pytest.mark.parametrize("fault", [None, STALL, REFUSE, RESTART])
def test_a_claim_that_has_its_size_is_left_alone_whatever_the_fault(fault: ResizeFault | None) -> None:
    found = claim("1Gi", "1024Mi")

    step = next_step(found, volume("1Gi"), [OLD], fault, NOW)

    assert step == WriteStatus(found.status)


@pytest.mark.parametrize(("fault", "used_by"), [(None, None), (RESTART, "old")])
def test_the_volume_is_raised_first_and_only_if_it_is_unchanged(fault: ResizeFault | None, used_by: str | None) -> None:
    waiting = PodUse("n", "waiting", "Pending", ("data",))

    step = next_step(claim("2Gi", "1Gi"), volume("1Gi"), [OLD, waiting], fault, NOW)

    assert isinstance(step, RaiseVolume)
    assert step.patch.body == {
        "metadata": {"annotations": {USED_BY: used_by}, "resourceVersion": "7"},
        "spec": {"capacity": {"storage": "2Gi"}},
    }


@pytest.mark.parametrize(
    ("fault", "condition", "state"),
    [
        (STALL, "Resizing", "ControllerResizeInProgress"),
        (REFUSE, "ControllerResizeError", "ControllerResizeInfeasible"),
    ],
)
def test_a_fault_marks_the_claim_and_replaces_an_earlier_mark(fault: ResizeFault, condition: str, state: str) -> None:
    earlier = [{"type": "FileSystemResizePending", "status": "True"}, {"type": "Foreign", "status": "True"}]

    step = next_step(claim("2Gi", "1Gi", conditions=earlier), volume("1Gi"), [], fault, NOW)

    assert isinstance(step, WriteStatus)
    assert [found.type for found in step.status.conditions] == ["Foreign", condition]
    assert step.status.allocated_resource_statuses == {"storage": state}
    assert step.refusal == fault.message


@pytest.mark.parametrize(("pods", "is_pending"), [([], True), ([OLD], True), ([OLD, NEW], False)])
def test_a_restart_is_a_pod_that_did_not_run_before(pods: list[PodUse], is_pending: bool) -> None:
    step = next_step(claim("2Gi", "1Gi"), volume("2Gi", used_by="old"), pods, RESTART, NOW)

    assert isinstance(step, WriteStatus)
    assert step.status.capacity == {"storage": "1Gi" if is_pending else "2Gi"}
    assert [found.type for found in step.status.conditions] == ["FileSystemResizePending"] * is_pending


def test_a_resize_that_was_marked_ends_without_marks() -> None:
    marks = [{"type": "Resizing", "status": "True"}]
    found = claim("2Gi", "1Gi", conditions=marks, allocatedResourceStatuses={"storage": "ControllerResizeInProgress"})

    step = next_step(found, volume("2Gi"), [], None, NOW)

    assert isinstance(step, WriteStatus)
    assert (step.status.capacity, step.status.conditions) == ({"storage": "2Gi"}, ())
    assert step.status.allocated_resource_statuses == {}
