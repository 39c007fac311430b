"""Sizes: what is patched, and what is said."""

import pytest
from attrs import evolve

from gpuruntime.api.gpustorage import GPUStorageSpec
from gpuruntime.desired.storage.growth import growth_of
from gpuruntime.desired.storage.rendering import StorageClassFacts
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import Condition, FrozenDict
from tests.desired.storage_objects import EXPANDABLE, claim_of, storage

FIXED = StorageClassFacts("fast")


def claim(request: str = "2Gi", capacity: str = "1Gi", phase: str = "Bound") -> PersistentVolumeClaim:
    return claim_of(storage(size=request), phase=phase, capacity=capacity)


@pytest.mark.parametrize(
    ("size", "found", "known", "patched", "phase"),
    [
        ("1Gi", claim("1Gi", "1Gi"), EXPANDABLE, None, None),
        ("1024Mi", claim("1Gi", "1Gi"), EXPANDABLE, None, None),
        ("1500Mi", claim("1500Mi", "2Gi"), EXPANDABLE, None, None),
        ("2Gi", claim("1Gi", "1Gi"), EXPANDABLE, "2Gi", None),
        ("2Gi", claim("1Gi", "1Gi"), FIXED, None, "Refused"),
        ("2Gi", claim("1Gi", "1Gi"), None, None, "Refused"),
        ("2Gi", claim("1Gi", phase="Pending"), EXPANDABLE, None, "Refused"),
        ("1Gi", claim("1Gi", phase="Pending"), EXPANDABLE, None, None),
        ("2Gi", claim("2Gi", "1Gi"), EXPANDABLE, None, "Growing"),
        ("3Gi", claim("2Gi", "1Gi"), EXPANDABLE, "3Gi", None),
        ("1500Mi", claim("2Gi", "1Gi"), FIXED, "1500Mi", None),
        ("1Gi", claim("2Gi", "1Gi"), EXPANDABLE, None, "Refused"),
        ("1Gi", claim("2Gi", "2Gi"), EXPANDABLE, None, "Refused"),
    ],
)
def test_a_size_is_patched_only_where_the_api_server_takes_it(
    size: str, found: PersistentVolumeClaim, known: StorageClassFacts | None, patched: str | None, phase: str | None
) -> None:
    growth = growth_of(GPUStorageSpec(size), found, known)

    assert growth.request == patched
    assert (None if growth.status is None else growth.status.phase) == phase


def test_the_words_of_the_volume_say_how_far_a_growth_is() -> None:
    spec, growing = GPUStorageSpec("2Gi"), claim()
    pending = Condition("FileSystemResizePending", "True", "", "waiting for a pod")
    error = Condition("ControllerResizeError", "True", "", "pool is full")
    statuses = [
        evolve(growing.status, conditions=(pending,)),
        evolve(growing.status, conditions=(error,)),
        evolve(
            growing.status,
            conditions=(error,),
            allocated_resource_statuses=FrozenDict({"storage": "ControllerResizeInfeasible"}),
        ),
    ]

    found = [growth_of(spec, evolve(growing, status=status), EXPANDABLE).status for status in statuses]

    assert [(status.phase, status.message) for status in found if status] == [
        ("NeedsRestart", "waiting for a pod"),
        ("Growing", "pool is full"),
        ("Refused", "pool is full"),
    ]


def test_another_attributes_class_is_patched_and_none_leaves_it_alone() -> None:
    gold = evolve(claim("1Gi"), spec=evolve(claim("1Gi").spec, volume_attributes_class_name="gold"))

    silver = growth_of(GPUStorageSpec("1Gi", volume_attributes_class_name="silver"), gold, EXPANDABLE)
    unset = growth_of(GPUStorageSpec("1Gi"), gold, EXPANDABLE)

    assert (silver.attributes_class, unset.attributes_class) == ("silver", None)
