from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.dispatch.activator.workers.choice import choose


@frozen
class Slots:
    free: int
    running: int
    revision: str = ""


workers = st.lists(st.builds(Slots, st.integers(-2, 3), st.integers(0, 4), st.sampled_from(["old", "new"])))


@given(workers)
def test_the_fewest_runs_come_first_and_then_the_present_revision(known: list[Slots]) -> None:
    chosen = choose(known, "new")

    able = [worker for worker in known if worker.free > 0]
    if not able:
        assert chosen is None
        return
    assert chosen is not None
    fewest = [worker for worker in able if worker.running == min(each.running for each in able)]
    assert chosen in fewest
    assert chosen.revision == "new" or all(worker.revision == "old" for worker in fewest)


def test_among_equals_it_is_the_first() -> None:
    one, two = Slots(1, 0, "a"), Slots(2, 0, "a")

    assert choose([one, two], "a") is one
    assert choose([two, one], None) is two


def test_a_free_slot_of_an_old_revision_comes_before_a_full_worker() -> None:
    assert choose([Slots(0, 0, "new"), Slots(1, 5, "old")], "new") == Slots(1, 5, "old")
