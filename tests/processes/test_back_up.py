from pathlib import Path

import pytest

from gpuruntime.archive.sqlite import SqliteStore
from gpuruntime.processes.command import main
from tests.archive.result_scenes import archived, key_of


async def test_a_copy_has_the_results_and_its_number_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SqliteStore(tmp_path / "results.db")
    await store.put([archived("one"), archived("two")])

    code = main(["back-up", "--database", str(tmp_path / "results.db"), "--out", str(tmp_path / "copy.db")])

    copy = SqliteStore(tmp_path / "copy.db")
    assert (code, capsys.readouterr().out) == (0, f"{tmp_path}/copy.db: 2 results\n")
    assert await copy.get(key_of("two")) is not None
    await copy.close()
    await store.close()


def test_a_missing_database_is_one_line_and_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["back-up", "--database", str(tmp_path / "none.db"), "--out", str(tmp_path / "copy.db")])

    assert code == 1
    assert capsys.readouterr().err == (
        f"error: database {tmp_path}/none.db: expected a file, got none; name the database of the result store\n"
    )
    assert list(tmp_path.iterdir()) == []
