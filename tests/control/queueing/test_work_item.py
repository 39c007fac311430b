from gpuruntime.control.queueing.work_item import CAUSES_KEPT, QueueItem


def test_distinct_causes_are_kept_in_order_up_to_a_limit_and_the_rest_are_counted() -> None:
    item = QueueItem("key", paused=False)

    for cause in [0, 0, *range(CAUSES_KEPT + 3), 1, CAUSES_KEPT]:
        item.add_cause(cause)

    assert item.take_causes() == (tuple(range(CAUSES_KEPT)), 4)
