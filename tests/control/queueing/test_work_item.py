from gpuruntime.control.queueing.work_item import CAUSES_KEPT, KeyState, QueueItem


def test_distinct_causes_are_kept_in_order_up_to_a_limit_and_the_rest_are_counted() -> None:
    item = QueueItem("key", paused=False)

    for cause in [0, 0, *range(CAUSES_KEPT + 3), 1, CAUSES_KEPT]:
        item.add_cause(cause)

    assert item.take_causes() == (tuple(range(CAUSES_KEPT)), 4)


def test_causes_are_returned_once() -> None:
    item = QueueItem("key", paused=False)
    item.add_cause("spec")

    item.take_causes()

    assert item.take_causes() == ((), 0)


def test_a_withdrawn_item_requests_no_run() -> None:
    item = QueueItem("key", paused=False)
    item.state = KeyState.READY
    item.add_cause("spec")

    item.withdraw()

    assert item.state is KeyState.IDLE
    assert item.take_causes() == ((), 0)


def test_a_view_shows_times_relative_to_now() -> None:
    item = QueueItem("key", paused=True)
    item.state, item.priority = KeyState.WAITING, 3
    item.requested_at, item.ready_at, item.running_since = 10.0, 25.0, 12.0

    view = item.view(now=20.0, failures=2)

    assert (view.key, view.state, view.priority) == ("key", KeyState.RUNNING, 3)
    assert (view.failures, view.paused) == (2, True)
    assert (view.age, view.due_in, view.running_for) == (10.0, 5.0, 8.0)


def test_a_view_of_an_idle_item_has_no_times() -> None:
    view = QueueItem("key", paused=True).view(now=20.0, failures=0)

    assert (view.state, view.age, view.due_in, view.running_for) == (KeyState.IDLE, 0.0, None, None)
