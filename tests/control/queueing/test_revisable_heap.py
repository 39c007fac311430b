import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.control.queueing.revisable_heap import HeapMember, RevisableHeap


class Ball(HeapMember):
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.entry = None
        self.number = number


def test_members_leave_in_order_and_equals_in_their_sequence() -> None:
    heap = RevisableHeap[Ball]()
    for number, order in enumerate((2.0, 1.0, 2.0, 0.5)):
        heap.push(Ball(number), order, number)

    left = [heap.pop().number for _ in range(heap.size)]

    assert left == [3, 1, 0, 2]
    assert heap.first() is None
    with pytest.raises(IndexError):
        heap.pop()


def test_a_member_that_left_may_come_back_to_the_very_place_it_had() -> None:
    heap = RevisableHeap[Ball]()
    ball = Ball(1)
    heap.push(ball, 1.0, 7)

    heap.discard(ball)
    heap.push(ball, 1.0, 7)

    assert heap.size == 1
    assert heap.pop() is ball
    assert heap.first() is None


def test_a_member_moves_from_one_heap_to_another() -> None:
    late, soon = RevisableHeap[Ball](), RevisableHeap[Ball]()
    ball = Ball(1)
    late.push(ball, 1.0, 1)

    late.discard(ball)
    soon.push(ball, 0.0, 2)

    assert late.first() is None
    assert soon.first() is ball


def test_members_that_come_and_go_leave_no_garbage_behind() -> None:
    heap = RevisableHeap[Ball]()
    stays, restless = Ball(0), Ball(1)
    heap.push(stays, 0.0, 0)

    for sequence in range(1, 10_000):
        heap.push(restless, 1.0, sequence)
        heap.discard(restless)

    assert len(heap._entries) < 200
    assert heap.pop() is stays


def test_a_cleared_heap_lets_its_members_go_elsewhere() -> None:
    heap = RevisableHeap[Ball]()
    ball = Ball(1)
    heap.push(ball, 1.0, 1)

    heap.clear()

    assert (heap.size, heap.first(), ball.entry) == (0, None, None)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.booleans())))
@settings(deadline=None)
def test_it_is_a_sorted_list(moves: list[tuple[int, int, bool]]) -> None:
    heap = RevisableHeap[Ball]()
    balls = [Ball(number) for number in range(10)]
    inside: dict[int, tuple[int, int]] = {}

    for sequence, (number, order, leave) in enumerate(moves):
        if number in inside:
            heap.discard(balls[number])
            del inside[number]
        if not leave:
            heap.push(balls[number], order, sequence)
            inside[number] = (order, sequence)

    assert heap.size == len(inside)
    assert [heap.pop().number for _ in range(heap.size)] == sorted(inside, key=lambda number: inside[number])
