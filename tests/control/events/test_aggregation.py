from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.events.aggregation import SimilarNotes, combined


def test_the_eleventh_different_note_in_ten_minutes_is_one_too_many() -> None:
    notes = SimilarNotes()

    crowded = [notes.is_crowded("group", f"note {number}", float(number)) for number in range(12)]

    assert crowded == [False] * 10 + [True] * 2


def test_the_same_note_again_and_again_is_no_crowd() -> None:
    notes = SimilarNotes()

    assert not any(notes.is_crowded("group", "note", float(number)) for number in range(100))


def test_a_note_seen_before_belongs_to_the_crowd_as_long_as_there_is_one() -> None:
    notes = SimilarNotes()
    for number in range(11):
        notes.is_crowded("group", f"note {number}", 0.0)

    within = notes.is_crowded("group", "note 0", 600.0)
    after = notes.is_crowded("group", "note 0", 601.0)

    assert (within, after) == (True, False)


def test_groups_do_not_share() -> None:
    notes = SimilarNotes(limit=1)
    notes.is_crowded("a", "one", 0.0)

    assert not notes.is_crowded("b", "two", 0.0)


def test_a_combined_note_says_so_and_shows_the_newest() -> None:
    assert combined("no space") == "(combined from similar events): no space"


@given(steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), max_size=60))
def test_a_crowd_is_more_different_notes_within_the_window_than_the_limit(steps: list[tuple[int, int]]) -> None:
    notes = SimilarNotes(limit=3, window_seconds=10.0)
    seen: list[tuple[int, int]] = []
    now = 0

    for note, wait in steps:
        now += wait
        seen.append((now, note))
        crowded = notes.is_crowded("group", str(note), float(now))

        assert crowded == (len({note for at, note in seen if now - at <= 10}) > 3)


@given(groups=st.lists(st.integers(0, 50)))
def test_memory_is_bounded(groups: list[int]) -> None:
    notes = SimilarNotes(memory=10)

    for group in groups:
        notes.is_crowded(group, "note", 0.0)

    assert len(notes) <= 10
