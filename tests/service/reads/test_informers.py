"""Summaries of nodes."""

from typing import Any

from gpuruntime.service.reads.informers import NodeSummary, summarize_node


def node(gpus: Any, product: str = "", ready: str = "True") -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": product} if product else {}},
        "status": {
            "capacity": {"nvidia.com/gpu": gpus},
            "allocatable": {"nvidia.com/gpu": gpus},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def test_a_summary_has_the_gpus_of_a_node_and_its_readiness() -> None:
    assert summarize_node(node("8", "L40S")) == NodeSummary(is_ready=True, product="L40S", capacity=8, allocatable=8)
    assert summarize_node(node("1k", ready="Unknown")) == NodeSummary(is_ready=False, capacity=1000, allocatable=1000)


def test_a_node_with_no_or_an_invalid_gpu_count_has_no_gpus() -> None:
    bare = summarize_node({"metadata": {"name": "n"}})
    nonsense = summarize_node(node("many"))

    assert bare == NodeSummary(is_ready=False)
    assert nonsense.capacity == 0


def test_a_node_that_is_not_ready_has_a_reason_and_a_message() -> None:
    conditions = [
        {"type": "MemoryPressure", "status": "Unknown"},
        {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting"},
    ]

    lost = summarize_node({"metadata": {"name": "n"}, "status": {"conditions": conditions}})
    new = summarize_node({"metadata": {"name": "n"}})
    well = summarize_node({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    assert lost == NodeSummary(is_ready=False, reason="NodeStatusUnknown", message="Kubelet stopped posting")
    assert new == NodeSummary(is_ready=False)
    assert well == NodeSummary(is_ready=True)
