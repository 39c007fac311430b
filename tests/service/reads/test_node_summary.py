"""What is kept of nodes as the API server sends them."""

from typing import Any

from gpuruntime.service.reads.node_summary import NodeSummary, summarize_node


def node(gpus: Any, product: str = "", ready: str = "True") -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": product} if product else {}},
        "status": {
            "capacity": {"nvidia.com/gpu": gpus},
            "allocatable": {"nvidia.com/gpu": gpus},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def test_a_node_is_summarized_by_what_it_has_and_whether_it_is_ready() -> None:
    assert summarize_node(node("8", "L40S")) == NodeSummary(is_ready=True, product="L40S", capacity=8, allocatable=8)
    assert summarize_node(node("1k", ready="Unknown")) == NodeSummary(is_ready=False, capacity=1000, allocatable=1000)


def test_a_node_that_says_nothing_or_nonsense_has_no_gpus() -> None:
    bare = summarize_node({"metadata": {"name": "n"}})
    nonsense = summarize_node(node("many"))

    assert bare == NodeSummary(is_ready=False)
    assert nonsense.capacity == 0


def test_a_node_is_ready_or_says_why_it_is_not() -> None:
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
