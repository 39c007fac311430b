from gpuruntime.service.reads.informers import NodeSummary
from gpuruntime.service.reads.inventory import GpuTotal, InventorySnapshot, totals_by_product


def test_gpus_are_summed_by_product_sorted_by_name() -> None:
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
