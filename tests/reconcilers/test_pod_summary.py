"""What is kept of pods as the API server sends them."""

from typing import Any

from gpuruntime.reconcilers.pod_summary import (
    ContainerSummary,
    Ending,
    PodSummary,
    summarize_pod,
)

RUN_AT = "2026-01-01T00:00:02Z"
RUNNING: dict[str, Any] = {
    "metadata": {
        "name": "unit-a-5d8-x2k",
        "namespace": "apps",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"runtime.lokiwager.io/unit": "a", "pod-template-hash": "5d8"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "unit-a-5d8", "uid": "rs-1", "controller": True}],
    },
    "spec": {"nodeName": "gpu-1", "containers": [{"name": "runtime-worker", "image": "x"}]},
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:04Z"},
        ],
        "containerStatuses": [
            {
                "name": "runtime-worker",
                "ready": True,
                "restartCount": 2,
                "state": {"running": {"startedAt": "2026-01-01T00:00:03Z"}},
                "lastState": {
                    "terminated": {
                        "exitCode": 1,
                        "reason": "Error",
                        "message": "oops",
                        "startedAt": "2025-12-31T23:59:58Z",
                        "finishedAt": "2026-01-01T00:00:02Z",
                    }
                },
            }
        ],
    },
}


def test_a_running_pod_is_kept_with_its_times_and_its_last_ending() -> None:
    summary = summarize_pod(RUNNING)

    assert summary == PodSummary(
        name="unit-a-5d8-x2k",
        namespace="apps",
        unit="a",
        controller="unit-a-5d8",
        created_at="2026-01-01T00:00:00Z",
        node="gpu-1",
        phase="Running",
        scheduled_at="2026-01-01T00:00:01Z",
        is_ready=True,
        ready_at="2026-01-01T00:00:04Z",
        containers=(
            ContainerSummary(
                "runtime-worker",
                is_ready=True,
                restarts=2,
                started_at="2026-01-01T00:00:03Z",
                ended_before=Ending(1, reason="Error", message="oops", seconds=4.0),
            ),
        ),
    )
    assert summary.started_at == "2026-01-01T00:00:03Z"


def test_a_pod_that_was_just_made_has_nothing_but_a_name() -> None:
    summary = summarize_pod({"metadata": {"name": "p"}})

    assert summary == PodSummary("p")
    assert summary.started_at == ""


def test_a_pod_that_no_node_takes_keeps_the_words_of_the_scheduler() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/4 nodes are available",
        "lastTransitionTime": "2026-01-01T00:00:01Z",
    }

    summary = summarize_pod({"metadata": {"name": "p"}, "status": {"conditions": [condition]}})

    assert (summary.unscheduled, summary.scheduled_at) == ("0/4 nodes are available", "")


def test_a_terminating_pod_differs_from_one_that_is_not() -> None:
    ending = summarize_pod({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:01Z"}})

    assert ending.is_ending


def test_irrelevant_changes_make_no_difference() -> None:
    status = {**RUNNING["status"], "podIP": "10.0.0.7", "qosClass": "Guaranteed"}
    touched = {**RUNNING, "metadata": {**RUNNING["metadata"], "resourceVersion": "9"}, "status": status}

    assert summarize_pod(touched) == summarize_pod(RUNNING)


def test_a_container_that_could_not_be_started_has_not_run_since_1970() -> None:
    ended = {"exitCode": 128, "reason": "StartError", "startedAt": "1970-01-01T00:00:00Z", "finishedAt": RUN_AT}
    status = {"name": "runtime-worker", "restartCount": 0, "state": {"terminated": ended}}

    summary = summarize_pod({"metadata": {"name": "p"}, "status": {"containerStatuses": [status]}})

    assert summary.containers[0].ended == Ending(128, reason="StartError", seconds=0.0)
