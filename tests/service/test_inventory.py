from typing import Any

from gpuruntime.service.inventory import GpuNode, GpuTotal, Stocktaking, summarize_gpu_node, totals_by_product


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
    assert summarize_gpu_node(node("8", "L40S")) == GpuNode(is_ready=True, product="L40S", capacity=8, allocatable=8)
    assert summarize_gpu_node(node("1k", ready="Unknown")) == GpuNode(is_ready=False, capacity=1000, allocatable=1000)


def test_a_node_that_says_nothing_or_nonsense_has_no_gpus() -> None:
    bare = summarize_gpu_node({"metadata": {"name": "n"}})
    nonsense = summarize_gpu_node(node("many"))

    assert bare == GpuNode(is_ready=False)
    assert nonsense.capacity == 0


def test_gpus_are_added_up_by_product_in_the_order_of_names() -> None:
    nodes = (
        GpuNode(is_ready=True, product="L40S", capacity=8, allocatable=7),
        GpuNode(is_ready=False, product="A100", capacity=4, allocatable=4),
        GpuNode(is_ready=True, product="L40S", capacity=8, allocatable=8),
        GpuNode(is_ready=True, capacity=1, allocatable=1),
        GpuNode(is_ready=True),
    )

    totals = totals_by_product(nodes)

    assert totals == (GpuTotal("A100", 1, 4, 4), GpuTotal("L40S", 2, 16, 15), GpuTotal("unknown", 1, 1, 1))
    assert Stocktaking(nodes).products == totals
