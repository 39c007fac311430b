import asyncio
from pathlib import Path

import pytest

from gpuruntime.api.invocations import ArchiveQuery
from gpuruntime.archive.sqlite import SqliteStore, back_up
from gpuruntime.archive.store import StoreError
from tests.archive.result_scenes import NOON, archived, key_of


async def test_a_back_up_beside_a_writer_has_whole_batches_and_opens_as_a_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "results.db")
    await store.put([archived("first", body=b"x")])

    async def write() -> None:
        for number in range(20):
            await store.put([archived(f"{number}-{part}") for part in range(10)])

    _, count = await asyncio.gather(write(), asyncio.to_thread(back_up, tmp_path / "results.db", tmp_path / "copy.db"))
    await store.close()

    copy = SqliteStore(tmp_path / "copy.db")
    rows = (await copy.list(ArchiveQuery(limit=500))).items
    assert len(rows) == count
    assert count % 10 == 1
    assert await copy.body(key_of("first"), NOON) == b"x"
    await copy.close()


def test_a_target_that_exists_is_kept(tmp_path: Path) -> None:
    (tmp_path / "results.db").touch()
    (tmp_path / "copy.db").write_text("kept")

    with pytest.raises(StoreError, match=r"copy\.db: expected a file that does not exist yet"):
        back_up(tmp_path / "results.db", tmp_path / "copy.db")

    assert (tmp_path / "copy.db").read_text() == "kept"


def test_a_failed_back_up_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "results.db").write_bytes(b"no database" * 1000)

    with pytest.raises(StoreError, match="not a database"):
        back_up(tmp_path / "results.db", tmp_path / "copy.db")
    with pytest.raises(StoreError, match=r"missing\.db: expected a file, got none"):
        back_up(tmp_path / "missing.db", tmp_path / "copy.db")

    assert [path.name for path in tmp_path.iterdir()] == ["results.db"]
