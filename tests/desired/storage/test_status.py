"""The status of a storage, from what was found."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api import reasons
from gpuruntime.api.gpustorage import AccessorStatus, GPUStorage, ResizeStatus
from gpuruntime.api.names import ATTACHED_TO
from gpuruntime.desired.storage.claim import VolumeState
from gpuruntime.desired.storage.preparation import Preparation
from gpuruntime.desired.storage.status import Obstacle, StorageFindings, is_mountable, storage_status, transition
from gpuruntime.meta import find_condition
from tests.desired.storage_objects import FILL, NOW, claim_of, storage

BOUND, LATE = VolumeState("bound"), VolumeState("late", "the first pod decides")
UNBOUND, LOST = VolumeState("unbound", "nobody made it"), VolumeState("unbound", "it is gone", is_lost=True)
DONE = Preparation("Succeeded", reasons.PREPARED_REASON, attempts=1)
RUNNING = Preparation("Running", reasons.PREPARE_RUNNING, "pod x runs", 1)
FAILED = Preparation("Failed", reasons.PREPARE_FAILED, "exit code 3", 1, "Required")
DELETING = Obstacle(reasons.STORAGE_DELETING, "in use")
INVALID = Obstacle(reasons.INVALID_SPEC, "spec.size: ...", is_applied=False)


@pytest.mark.parametrize(
    ("volume", "preparation", "obstacle", "expected"),
    [
        (BOUND, None, None, ("True", reasons.STORAGE_READY, "Ready")),
        (LATE, None, None, ("True", reasons.WAITS_FOR_FIRST_CONSUMER, "Ready")),
        (UNBOUND, None, None, ("False", reasons.STORAGE_PENDING, "Pending")),
        (None, None, None, ("False", reasons.STORAGE_PENDING, "Pending")),
        (LOST, DONE, None, ("False", reasons.CLAIM_LOST, "Failed")),
        (BOUND, DONE, None, ("True", reasons.STORAGE_READY, "Ready")),
        (BOUND, RUNNING, None, ("False", reasons.PREPARE_RUNNING, "Pending")),
        (LATE, RUNNING, None, ("False", reasons.PREPARE_RUNNING, "Pending")),
        (BOUND, FAILED, None, ("False", reasons.PREPARE_FAILED, "Failed")),
        (BOUND, DONE, DELETING, ("False", reasons.STORAGE_DELETING, "Pending")),
        (BOUND, None, INVALID, ("False", reasons.INVALID_SPEC, "Failed")),
    ],
)
def test_ready_says_whether_the_storage_can_be_mounted_and_why_not(
    volume: VolumeState | None,
    preparation: Preparation | None,
    obstacle: Obstacle | None,
    expected: tuple[str, str, str],
) -> None:
    of = storage(None if preparation is None else FILL)
    found = StorageFindings(claim_of(of), volume, preparation, obstacle=obstacle)

    status = storage_status(of, found, NOW)

    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason, status.phase) == expected
    assert is_mountable(found) == (ready.status == "True")
    assert status.observed_generation == (None if obstacle is INVALID else 1)


def test_the_status_names_holder_units_job_and_progress() -> None:
    of = storage(FILL, annotations={ATTACHED_TO: "gpuunits/demo"})
    found = StorageFindings(
        claim_of(of), BOUND, FAILED, ("a", "b"), ResizeStatus("Growing"), AccessorStatus("Ready", "svc", "/x")
    )

    status = storage_status(of, found, NOW)

    assert (status.claim_name, status.capacity) == ("data", "1Gi")
    assert (status.attached_to, status.mounted_by) == ("gpuunits/demo", ("a", "b"))
    assert status.prepare is not None
    assert (status.prepare.phase, status.prepare.attempts, status.prepare.recovery_phase) == ("Failed", 1, "Required")
    assert (status.prepare.message, (status.prepare.job_name or "")[:13]) == ("exit code 3", "prepare-data-")
    assert [(condition.type, condition.status, condition.reason) for condition in status.conditions] == [
        ("Ready", "False", reasons.PREPARE_FAILED),
        ("Prepared", "False", reasons.PREPARE_FAILED),
        ("AccessorReady", "True", reasons.ACCESSOR_READY),
    ]


def test_what_an_obstacle_hides_is_not_forgotten() -> None:
    of = storage(FILL)
    ready = evolve(of, status=storage_status(of, StorageFindings(claim_of(of), BOUND, DONE), NOW))

    lost = storage_status(ready, StorageFindings(obstacle=Obstacle(reasons.CLAIM_LOST, "gone")), NOW)

    assert (lost.capacity, lost.claim_name) == ("1Gi", "data")
    assert lost.prepare is not None
    assert lost.prepare.phase == "Succeeded"
    prepared = find_condition(lost.conditions, "Prepared")
    assert prepared is not None
    assert prepared.status == "True"
    changed = transition(ready.status, lost)
    assert changed is not None
    assert changed.reason == reasons.CLAIM_LOST


@given(
    of=st.sampled_from([storage(), storage(FILL), storage(FILL, annotations={ATTACHED_TO: "gpuunits/x"})]),
    volume=st.sampled_from([None, BOUND, LATE, UNBOUND, LOST]),
    preparation=st.sampled_from([None, DONE, RUNNING, FAILED]),
    obstacle=st.sampled_from([None, DELETING, INVALID]),
    units=st.sampled_from([(), ("a",)]),
)
def test_the_status_of_an_unchanged_storage_is_the_same_object(
    of: GPUStorage,
    volume: VolumeState | None,
    preparation: Preparation | None,
    obstacle: Obstacle | None,
    units: tuple[str, ...],
) -> None:
    found = StorageFindings(claim_of(of), volume, preparation, units, obstacle=obstacle)
    written = evolve(of, status=storage_status(of, found, NOW))

    again = storage_status(written, found, NOW.replace(hour=9))

    assert again is written.status
    assert transition(written.status, again) is None
