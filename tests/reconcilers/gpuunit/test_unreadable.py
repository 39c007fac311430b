"""What is said of a unit that cannot be read."""

from datetime import UTC, datetime
from typing import Any

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.meta import encode
from gpuruntime.meta.dynamic import DynamicObject
from gpuruntime.reconcilers.gpuunit.unreadable import status_of, unreadable_status

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)


def stored(status: Any) -> DynamicObject:
    metadata = {"name": "old", "namespace": "a", "generation": 3}
    return DynamicObject.decode(GPUUnit.KIND, {"metadata": metadata, "spec": {"gpu": "one"}, "status": status})


def test_what_is_known_of_the_children_stays_and_the_fault_is_in_the_status() -> None:
    unit = stored({"phase": "Ready", "serviceName": "unit-old", "readyReplicas": 1, "observedGeneration": 2})

    status = unreadable_status(unit, "spec.gpu: expected a number", NOW)

    assert (status.phase, status.service_name, status.ready_replicas) == ("Failed", "unit-old", 1)
    assert (status.observed_generation, status.last_sync_time) == (2, "2026-01-01T00:00:00Z")
    assert [(reported.reason, reported.message, reported.observed_generation) for reported in status.conditions] == [
        ("InvalidSpec", "spec.gpu: expected a number", 3)
    ]


def test_a_status_that_says_so_already_stays() -> None:
    once = unreadable_status(stored(None), "fault", NOW)

    again = unreadable_status(stored(encode(once)), "fault", LATER)

    assert again == once


def test_a_status_that_cannot_be_read_either_is_begun_anew() -> None:
    assert status_of(stored({"readyReplicas": "many"})) == status_of(stored(None))
