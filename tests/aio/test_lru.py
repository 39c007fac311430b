from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.aio.lru import LRU


def test_the_least_recently_used_entry_is_evicted() -> None:
    memory: LRU[str, int] = LRU(2)
    memory.put("a", 1)
    memory.put("b", 2)
    memory.get("a")

    evicted = memory.put("c", 3)

    assert evicted == 2
    assert memory.values() == (1, 3)


def test_a_new_value_of_a_known_key_evicts_nothing() -> None:
    memory: LRU[str, int] = LRU(1)
    memory.put("a", 1)

    evicted = memory.put("a", 2)

    assert evicted is None
    assert (memory.get("a"), len(memory)) == (2, 1)


def test_a_discarded_entry_is_gone_and_may_be_discarded_again() -> None:
    memory: LRU[str, int] = LRU(1)
    memory.put("a", 1)

    memory.discard("a")
    memory.discard("a")

    assert "a" not in memory
    assert memory.get("a") is None


@given(keys=st.lists(st.integers(0, 9)), limit=st.integers(1, 5))
def test_exactly_the_most_recently_used_entries_are_kept(keys: list[int], limit: int) -> None:
    memory: LRU[int, int] = LRU(limit)

    for key in keys:
        memory.put(key, key)

    latest = list(dict.fromkeys(reversed(keys)))[:limit]
    assert list(memory.values()) == latest[::-1]
