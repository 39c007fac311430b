from gpuruntime.service.reads.inventory import GpuTotal, InventorySnapshot, totals_by_product
from gpuruntime.service.reads.node_summary import NodeSummary


def test_gpus_are_added_up_by_product_in_the_order_of_names() -> None:
    nodes = (
        NodeSummary(is_ready=True, product="L40S", capacity=8, allocatable=7),
        NodeSummary(is_ready=False, product="A100", capacity=4, allocatable=4),
        NodeSummary(is_ready=True, product="L40S", capacity=8, allocatable=8),
        NodeSummary(is_ready=True, capacity=1, allocatable=1),
        NodeSummary(is_ready=True),
    )

    totals = totals_by_product(nodes)

    assert totals == (GpuTotal("A100", 1, 4, 4), GpuTotal("L40S", 2, 16, 15), GpuTotal("unknown", 1, 1, 1))
    assert InventorySnapshot(nodes).products == totals
