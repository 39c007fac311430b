"""What is kept of pods that use PersistentVolumeClaims."""

from typing import Any

import pytest

from gpuruntime.api.names import STORAGE_ACCESSOR_LABEL, STORAGE_PREPARE_LABEL
from gpuruntime.reconcilers.claim_users import PodUse, described, summarize_use

PREPARE = {STORAGE_PREPARE_LABEL: "data"}


def pod(labels: dict[str, str] | None = None, claims: tuple[str, ...] = ("data",), **status: Any) -> dict[str, Any]:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    owner = {"kind": "Job", "name": "prepare-1", "controller": True}
    return {
        "metadata": {"name": "p", "labels": labels or {}, "ownerReferences": [owner]},
        "spec": {"volumes": [{"name": "tmp", "emptyDir": {}}, *volumes]},
        "status": status,
    }


def test_a_pod_is_its_claims_its_owner_and_its_role() -> None:
    prepares, accesses = summarize_use(pod(PREPARE)), summarize_use(pod({STORAGE_ACCESSOR_LABEL: "data"}))

    assert prepares == PodUse("p", ("data",), owner="prepare-1", prepares="data")
    assert accesses == PodUse("p", ("data",), owner="prepare-1", accesses="data")
    assert summarize_use(pod(claims=("a", "b"), phase="Running")).claims == ("a", "b")
    assert [summarize_use(pod(phase=phase)).is_over for phase in ("Running", "Failed", "Succeeded")] == [0, 1, 1]


def test_pods_without_claims_are_one_value() -> None:
    assert summarize_use(pod(claims=())) is summarize_use({"metadata": {"name": "x"}})


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
    assert summarize_use(pod(PREPARE, **status)).words == words
    assert summarize_use(pod(**status)).words == ""


def test_pods_are_named_up_to_three() -> None:
    assert described([]) == ""
    assert described([PodUse("a")]) == "pod a"
    assert described([PodUse(name) for name in "abcde"]) == "pods a, b, c and 2 more"
