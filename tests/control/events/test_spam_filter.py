from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.events.spam_filter import Aggregator, SpamFilter, aggregated


def test_the_eleventh_distinct_note_in_ten_minutes_is_aggregated() -> None:
    aggregator = Aggregator()

    too_many = [aggregator.observe("group", f"note {number}", float(number)) for number in range(12)]

    assert too_many == [False] * 10 + [True] * 2


def test_a_repeated_note_is_not_aggregated() -> None:
    aggregator = Aggregator()

    assert not any(aggregator.observe("group", "note", float(number)) for number in range(100))


def test_a_known_note_is_aggregated_as_long_as_its_group_is() -> None:
    aggregator = Aggregator()
    for number in range(11):
        aggregator.observe("group", f"note {number}", 0.0)

    within = aggregator.observe("group", "note 0", 600.0)
    after = aggregator.observe("group", "note 0", 601.0)

    assert (within, after) == (True, False)


def test_groups_are_counted_separately() -> None:
    aggregator = Aggregator(limit=1)
    aggregator.observe("a", "one", 0.0)

    assert not aggregator.observe("b", "two", 0.0)


def test_an_aggregated_note_has_the_prefix_of_client_go() -> None:
    assert aggregated("no space") == "(combined from similar events): no space"


@given(steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), max_size=60))
def test_a_group_above_the_limit_of_distinct_notes_is_aggregated(
    steps: list[tuple[int, int]],
) -> None:
    aggregator = Aggregator(limit=3, window_seconds=10.0)
    seen: list[tuple[int, int]] = []
    now = 0

    for note, wait in steps:
        now += wait
        seen.append((now, note))
        too_many = aggregator.observe("group", str(note), float(now))

        assert too_many == (len({note for at, note in seen if now - at <= 10}) > 3)


@given(groups=st.lists(st.integers(0, 50)))
def test_the_memory_of_the_aggregator_is_bounded(groups: list[int]) -> None:
    aggregator = Aggregator(lru_size=10)

    for group in groups:
        aggregator.observe(group, "note", 0.0)

    assert len(aggregator) <= 10


def test_a_burst_is_followed_by_one_token_every_five_minutes() -> None:
    spam_filter = SpamFilter()
    burst = [spam_filter.take("pod", 0.0) for _ in range(26)]

    later = [spam_filter.take("pod", now) for now in (299.0, 300.0, 301.0, 600.0)]

    assert burst == [True] * 25 + [False]
    assert later == [False, True, False, True]


def test_a_quiet_object_regains_its_full_burst_and_no_more() -> None:
    spam_filter = SpamFilter(burst=2, refill_seconds=10.0)
    taken = [spam_filter.take("pod", 0.0), spam_filter.take("pod", 0.0)]

    again = [spam_filter.take("pod", 1000.0) for _ in range(3)]

    assert taken == [True, True]
    assert again == [True, True, False]


def test_objects_have_separate_buckets() -> None:
    spam_filter = SpamFilter(burst=1)
    spam_filter.take("a", 0.0)

    assert spam_filter.take("b", 0.0)
    assert not spam_filter.take("a", 0.0)


def test_a_clock_that_is_set_back_leaves_an_empty_bucket_that_refills() -> None:
    spam_filter = SpamFilter(burst=2, refill_seconds=10.0)
    spam_filter.take("pod", 1e6)

    at_once = spam_filter.take("pod", 0.0)
    later = spam_filter.take("pod", 10.0)

    assert (at_once, later) == (False, True)


@given(waits=st.lists(st.integers(0, 1000), max_size=200))
def test_no_sequence_of_events_gets_more_than_burst_and_refill(waits: list[int]) -> None:
    spam_filter = SpamFilter(burst=3, refill_seconds=100.0)
    now, taken = 0, 0

    for wait in waits:
        now += wait
        taken += spam_filter.take("pod", float(now))

        assert taken <= 3 + (now - waits[0]) // 100


@given(objects=st.lists(st.integers(0, 50)))
def test_the_memory_of_the_spam_filter_is_bounded(objects: list[int]) -> None:
    spam_filter = SpamFilter(lru_size=10)

    for number in objects:
        spam_filter.take(number, 0.0)

    assert len(spam_filter) <= 10
