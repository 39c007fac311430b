from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.serving.connection_table import ConnectionTable, TableFullError

Step = tuple[Literal["come", "busy", "wait", "go"], int]
STEPS = st.lists(st.tuples(st.sampled_from(["come", "busy", "wait", "go"]), st.integers(0, 40)), max_size=80)
ADDRESSES = 4


@given(steps=STEPS, total=st.integers(1, 8), per_address=st.integers(1, 8))
def test_the_limits_always_hold_and_no_busy_connection_is_evicted(
    steps: list[Step], total: int, per_address: int
) -> None:
    table: ConnectionTable[int] = ConnectionTable(total, per_address)
    owners: dict[int, str] = {}
    busy: set[int] = set()

    for number, (act, choice) in enumerate(steps):
        if act == "come":
            address = str(choice % ADDRESSES)
            mine = [known for known, owner in owners.items() if owner == address]
            group, most = (mine, per_address) if len(mine) >= per_address else (list(owners), total)
            if len(group) >= most and set(group) <= busy:
                with pytest.raises(TableFullError, match="address" if group is mine else "total"):
                    table.to_evict(address)
                continue
            evicted = table.to_evict(address)
            if evicted is not None:
                assert evicted not in busy
                assert len(mine) >= per_address or len(owners) >= total
                del owners[evicted]
                table.remove(evicted)
            owners[number] = address
            table.add(number, address)
        elif owners:
            chosen = sorted(owners)[choice % len(owners)]
            if act == "busy":
                busy.add(chosen)
                table.set_busy(chosen)
            elif act == "wait":
                busy.discard(chosen)
                table.set_idle(chosen)
            else:
                busy.discard(chosen)
                del owners[chosen]
                table.remove(chosen)
        assert len(table) == len(owners) <= total
        assert all([*owners.values()].count(address) <= per_address for address in owners.values())


def test_the_longest_idle_connection_is_evicted() -> None:
    table: ConnectionTable[str] = ConnectionTable(3, 3)
    for name in ("first", "second", "third"):
        table.add(name, "a")

    table.set_busy("first")
    table.set_idle("first")

    assert table.to_evict("a") == "second"


def test_the_address_with_the_most_connections_is_evicted_for_another_one() -> None:
    table: ConnectionTable[str] = ConnectionTable(4, 3)
    table.add("the only one of b", "b")
    for name in ("first", "second", "third"):
        table.add(name, "a")

    assert table.to_evict("c") == "first"


def test_an_address_at_its_limit_does_not_affect_others() -> None:
    table: ConnectionTable[str] = ConnectionTable(4, 2)
    table.add("of b", "b")
    for name in ("first", "second"):
        table.add(name, "a")
        table.set_busy(name)

    with pytest.raises(TableFullError, match="address"):
        table.to_evict("a")
    assert table.to_evict("b") is None


def test_a_connection_may_be_removed_more_than_once() -> None:
    table: ConnectionTable[str] = ConnectionTable(1, 1)
    table.add("one", "a")

    table.remove("one")
    table.remove("one")
    table.set_busy("one")
    table.set_idle("one")

    assert len(table) == 0
    assert table.to_evict("a") is None
