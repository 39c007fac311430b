"""What every result store promises. The tests of a store derive from `StorePromises`, and have a fixture `store`."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from attrs import evolve

from gpuruntime.api.invocations import ArchiveCursorError, ArchiveQuery, ResultRecord
from gpuruntime.archive.results import ResultRow
from gpuruntime.archive.store import ResultStore
from gpuruntime.meta import FrozenDict, ObjectKey, format_micros
from tests.archive.result_scenes import NOON, TTL, archived, key_of

__all__ = ["StorePromises", "follow"]

WEEK = timedelta(days=7)
SECOND = timedelta(seconds=1)


async def follow(store: ResultStore, query: ArchiveQuery) -> AsyncIterator[tuple[ResultRow, ...]]:
    """All pages of a list."""
    while True:
        page = await store.list(query)
        yield page.items
        if not page.next:
            return
        query = evolve(query, cursor=page.next)


async def ids(store: ResultStore, query: ArchiveQuery) -> list[str]:
    return [row.key.id async for page in follow(store, query) for row in page]


class StorePromises:
    async def test_a_result_is_read_as_it_was_put(self, store: ResultStore) -> None:
        record = ResultRecord(
            "failed",
            request_hash="abc",
            failure_class="framework_error",
            error="ValueError: ünï",
            status_code=500,
            content_type="text/plain",
            headers=FrozenDict({"x": "y"}),
            attempt=2,
            worker="w-1",
            execution_millis=12,
            result_ttl_millis=3_600_000,
        )
        result = evolve(archived("a.b:c", after=0.000001, body=b"\x00\xff\n"), record=record)

        await store.put([result])

        row = await store.get(key_of("a.b:c"))
        assert row is not None
        assert (row.key, row.record, row.ended, row.expires) == (result.key, record, result.ended, result.expires)
        assert row.body_bytes == 3
        assert await store.body(key_of("a.b:c"), NOON) == b"\x00\xff\n"

    async def test_an_unknown_result_is_none(self, store: ResultStore) -> None:
        await store.put([archived("one", body=b"x")])

        others = (key_of("two"), key_of("one", function="other"), key_of("one", namespace="other"))

        assert [await store.get(key) for key in others] == [None, None, None]
        assert [await store.body(key, NOON) for key in others] == [None, None, None]

    async def test_a_new_store_is_empty(self, store: ResultStore) -> None:
        assert await ids(store, ArchiveQuery()) == []
        assert await store.get(key_of("one")) is None
        assert await store.purge(ObjectKey("ns", "echo")) == 0
        assert not (await store.expire(NOON, WEEK)).more

    async def test_a_result_that_is_put_again_changes_nothing(self, store: ResultStore) -> None:
        batch = [archived("one", body=b"1"), archived("two", after=1, body=b"2")]
        await store.put(batch)
        before = (await store.list(ArchiveQuery())).items

        await store.put(batch)
        await store.put([*batch, *batch])

        assert (await store.list(ArchiveQuery())).items == before
        assert await store.body(key_of("one"), NOON) == b"1"

    async def test_of_two_results_of_an_invocation_the_later_counts_in_either_order(self, store: ResultStore) -> None:
        older = {name: archived(name, body=b"older", state="failed") for name in ("one", "two")}
        newer = {name: archived(name, after=9, body=b"newer!") for name in ("one", "two")}

        await store.put([older["one"], newer["two"]])
        await store.put([newer["one"], older["two"]])

        for name in ("one", "two"):
            row = await store.get(key_of(name))
            assert row is not None
            assert (row.record.state, row.ended, row.body_bytes) == ("succeeded", newer[name].ended, 6)
            assert await store.body(key_of(name), NOON) == b"newer!"

    async def test_empty_and_large_bodies_are_bodies(self, store: ResultStore) -> None:
        large = bytes(range(256)) * 4096

        await store.put([archived("empty"), archived("large", body=large)])

        assert await store.body(key_of("empty"), NOON) == b""
        assert await store.body(key_of("large"), NOON) == large

    async def test_lists_are_newest_first_and_filtered(self, store: ResultStore) -> None:
        await store.put(
            [
                archived(key_of("a"), after=1),
                archived(key_of("b"), after=2, state="failed"),
                archived(key_of("c", function="other"), after=3),
                archived(key_of("d", namespace="far"), after=4, state="failed"),
            ]
        )
        at = format_micros(NOON + 2 * SECOND)

        assert await ids(store, ArchiveQuery()) == ["d", "c", "b", "a"]
        assert await ids(store, ArchiveQuery(namespace="ns")) == ["c", "b", "a"]
        assert await ids(store, ArchiveQuery(function="echo")) == ["d", "b", "a"]
        assert await ids(store, ArchiveQuery(namespace="ns", function="echo")) == ["b", "a"]
        assert await ids(store, ArchiveQuery(state="failed")) == ["d", "b"]
        assert await ids(store, ArchiveQuery(namespace="ns", function="echo", state="failed")) == ["b"]
        assert await ids(store, ArchiveQuery(since=at)) == ["d", "c", "b"]
        assert await ids(store, ArchiveQuery(until=at)) == ["a"]
        assert await ids(store, ArchiveQuery(since=at, until=at)) == []

    async def test_times_that_an_offset_moves_out_of_the_calendar_are_before_and_after_all(
        self, store: ResultStore
    ) -> None:
        await store.put([archived("one")])
        first, last = "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"

        assert await ids(store, ArchiveQuery(since=first, until=last)) == ["one"]
        assert await ids(store, ArchiveQuery(since=last)) == []
        assert await ids(store, ArchiveQuery(until=first)) == []

    async def test_pages_end_at_the_last_time_that_was_asked_for(self, store: ResultStore) -> None:
        await store.put([archived(f"i{number}", after=number) for number in range(6)])
        query = ArchiveQuery(since=format_micros(NOON + SECOND), until=format_micros(NOON + 4 * SECOND), limit=1)

        assert await ids(store, query) == ["i3", "i2", "i1"]

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 500])
    async def test_pages_have_each_result_once_also_those_that_ended_together(
        self, store: ResultStore, limit: int
    ) -> None:
        await store.put([archived(f"i{number}", after=number // 3) for number in range(7)])

        pages = [page async for page in follow(store, ArchiveQuery(limit=limit))]

        assert [row.key.id for page in pages for row in page] == [f"i{number}" for number in range(6, -1, -1)]
        assert all(len(page) == limit for page in pages[:-1])

    async def test_what_ends_while_pages_are_read_moves_none_of_them(self, store: ResultStore) -> None:
        await store.put([archived(f"i{number}", after=number) for number in range(6)])
        seen = []

        async for page in follow(store, ArchiveQuery(limit=2)):
            seen += [row.key.id for row in page]
            await store.put([archived(f"late-{len(seen)}", after=100 + len(seen))])

        assert seen == ["i5", "i4", "i3", "i2", "i1", "i0"]

    async def test_a_cursor_of_another_query_is_refused(self, store: ResultStore) -> None:
        await store.put([archived(f"i{number}") for number in range(3)])
        cursor = (await store.list(ArchiveQuery(limit=1))).next

        for query in (ArchiveQuery(cursor="x"), ArchiveQuery(cursor=""), ArchiveQuery(state="failed", cursor=cursor)):
            with pytest.raises(ArchiveCursorError, match="next"):
                await store.list(query)

    async def test_a_body_expires_and_its_row_a_week_later(self, store: ResultStore) -> None:
        await store.put([archived("one", body=b"x")])
        end = NOON + TTL

        early = await store.expire(end - SECOND, WEEK)
        kept = await store.body(key_of("one"), end - SECOND)
        due = await store.body(key_of("one"), end)
        first = await store.expire(end, WEEK)
        row = await store.get(key_of("one"))
        second = await store.expire(end + WEEK, WEEK)

        assert (early.bodies, early.rows, kept) == (0, 0, b"x")
        assert due is None
        assert (first.bodies, first.rows) == (1, 0)
        assert row is not None
        assert (row.body_bytes, row.view(end).is_expired, row.view(end - SECOND).is_expired) == (1, True, False)
        assert (second.bodies, second.rows, await store.get(key_of("one"))) == (0, 1, None)

    async def test_a_result_that_is_put_after_it_expired_shows_no_body(self, store: ResultStore) -> None:
        late = NOON + TTL + SECOND
        await store.put([archived("one", body=b"x")])
        await store.expire(late, WEEK)

        await store.put([archived("one", body=b"x"), archived("two", body=b"y")])

        assert [await store.body(key_of(name), late) for name in ("one", "two")] == [None, None]
        assert (await store.get(key_of("two"))) is not None

    async def test_expiry_goes_on_in_rounds_until_nothing_is_left(self, store: ResultStore) -> None:
        await store.put([archived(f"i{number}", body=b"x") for number in range(1300)])
        bodies = rows = rounds = 0

        more = True
        while more:
            done = await store.expire(NOON + TTL + WEEK, WEEK)
            bodies, rows, more, rounds = bodies + done.bodies, rows + done.rows, done.more, rounds + 1

        assert await ids(store, ArchiveQuery()) == []
        assert (rows, rounds > 1) == (1300, True)
        assert bodies <= 1300

    async def test_a_purge_deletes_one_function_with_its_bodies(self, store: ResultStore) -> None:
        kept = (key_of("a", function="other"), key_of("a", namespace="far"))
        await store.put([archived(key, body=b"x") for key in (key_of("a"), key_of("b"), *kept)])

        purged = await store.purge(ObjectKey("ns", "echo"))

        assert purged == 2
        assert await store.body(key_of("a"), NOON) is None
        assert [await store.body(key, NOON) for key in kept] == [b"x", b"x"]
        await store.put([archived("a", body=b"again")])
        assert await store.body(key_of("a"), NOON) == b"again"

    async def test_many_callers_at_once_see_whole_batches(self, store: ResultStore) -> None:
        async def write(number: int) -> None:
            await store.put([archived(f"{number}-{part}", after=number, body=b"x" * 100) for part in range(20)])

        async def read() -> set[int]:
            page = await store.list(ArchiveQuery(limit=500))
            return {sum(row.key.id.startswith(f"{number}-") for row in page.items) for number in range(20)}

        counts = await asyncio.gather(*(work for number in range(20) for work in (write(number), read())))

        seen = set().union(*(found for found in counts if found is not None))
        assert seen <= {0, 20}
        assert len(await ids(store, ArchiveQuery())) == 400
