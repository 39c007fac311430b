from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.control.queueing.revisable_heap import HeapMember, RevisableHeap


class Member(HeapMember):
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.entry = None
        self.number = number


def test_discarded_members_leave_no_garbage_behind() -> None:
    heap = RevisableHeap[Member]()
    stays, moving = Member(0), Member(1)
    heap.push(stays, 0.0, 0)

    for sequence in range(1, 10_000):
        heap.push(moving, 1.0, sequence)
        heap.discard(moving)

    assert len(heap._entries) < 200
    assert heap.pop() is stays


def test_clearing_a_heap_releases_its_members() -> None:
    heap = RevisableHeap[Member]()
    member = Member(1)
    heap.push(member, 1.0, 1)

    heap.clear()

    assert (heap.size, heap.first(), member.entry) == (0, None, None)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.booleans())))
@settings(deadline=None)
def test_it_behaves_like_a_sorted_list(moves: list[tuple[int, int, bool]]) -> None:
    heap = RevisableHeap[Member]()
    members = [Member(number) for number in range(10)]
    inside: dict[int, tuple[int, int]] = {}

    for sequence, (number, order, discarded) in enumerate(moves):
        if number in inside:
            heap.discard(members[number])
            del inside[number]
        if not discarded:
            heap.push(members[number], order, sequence)
            inside[number] = (order, sequence)

    assert heap.size == len(inside)
    assert [heap.pop().number for _ in range(heap.size)] == sorted(inside, key=lambda number: inside[number])
