"""Pods that use the volumes of storages."""

from typing import Any

import pytest

from gpuruntime.api.names import STORAGE_ACCESSOR_LABEL, STORAGE_PREPARE_LABEL
from gpuruntime.reconcilers.pod_summary import PodSummary, summarize_pod
from gpuruntime.reconcilers.volume_users import described, trouble_of, volumes_concerned

PREPARE = {STORAGE_PREPARE_LABEL: "data"}


def pod(labels: dict[str, str] | None = None, claims: tuple[str, ...] = ("data",), **status: Any) -> dict[str, Any]:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    owner = {"kind": "Job", "name": "prepare-1", "controller": True}
    return {
        "metadata": {"name": "p", "labels": labels or {}, "ownerReferences": [owner]},
        "spec": {"volumes": [{"name": "tmp", "emptyDir": {}}, *volumes]},
        "status": status,
    }


def test_a_pod_is_its_volumes_its_controller_and_its_role() -> None:
    prepares, accesses = summarize_pod(pod(PREPARE)), summarize_pod(pod({STORAGE_ACCESSOR_LABEL: "data"}))

    assert ([use.claim for use in prepares.volumes], prepares.controller) == (["data"], "prepare-1")
    assert (prepares.prepares, prepares.accessor) == ("data", "")
    assert (accesses.prepares, accesses.accessor) == ("", "data")
    assert [summarize_pod(pod(phase=phase)).is_over for phase in ("Running", "Failed", "Succeeded")] == [0, 1, 1]


RUNNING, ENDED, TRIED = (
    {"phase": "Running"},
    {"phase": "Failed"},
    {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
)


@pytest.mark.parametrize(
    ("labels", "before", "after", "names"),
    [
        ({}, None, RUNNING, ["data"]),
        ({}, RUNNING, ENDED, ["data"]),
        ({}, RUNNING, None, ["data"]),
        ({}, RUNNING, TRIED, []),
        (PREPARE, RUNNING, TRIED, ["data"]),
        (PREPARE, RUNNING, RUNNING, []),
    ],
)
def test_a_change_concerns_storages_by_volumes_ends_and_trouble_of_preparations(
    labels: dict[str, str], before: dict[str, Any] | None, after: dict[str, Any] | None, names: list[str]
) -> None:
    states = [None if status is None else summarize_pod(pod(labels, **status)) for status in (before, after)]

    found = volumes_concerned(*states)

    assert list(found) == names


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "Pod p: Evicted: low on memory"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]},
            "Pod p is not scheduled: 0/3 nodes",
        ),
        (
            {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
            "Pod p container c: ImagePullBackOff",
        ),
        (
            {"initContainerStatuses": [{"name": "wipe", "state": {"terminated": {"exitCode": 3, "message": "no"}}}]},
            "Pod p container wipe: exit code 3: no",
        ),
        ({"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]}, ""),
        ({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
    ],
)
def test_a_pod_that_prepares_says_what_is_wrong(status: dict[str, Any], words: str) -> None:
    assert trouble_of(summarize_pod(pod(PREPARE, **status))) == words


def test_pods_are_named_up_to_three() -> None:
    assert described([]) == ""
    assert described([PodSummary("a")]) == "pod a"
    assert described([PodSummary(name) for name in "abcde"]) == "pods a, b, c and 2 more"
