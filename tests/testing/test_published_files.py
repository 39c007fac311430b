"""Files by which a process tells others of what it runs."""

import stat
from pathlib import Path

from gpuruntime.testing.published_files import publish, read_published


def test_a_document_is_read_as_it_was_published_last(tmp_path: Path) -> None:
    path = tmp_path / "access.json"
    assert read_published(path) is None
    publish(path, {"server": "https://127.0.0.1:1"})

    publish(path, {"server": "https://127.0.0.1:2"})

    assert read_published(path) == {"server": "https://127.0.0.1:2"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_secret_is_readable_by_its_user_only_even_after_a_writer_was_killed(tmp_path: Path) -> None:
    path, left = tmp_path / "running.json", tmp_path / "running.json.draft"
    left.write_text('{"token":')
    left.chmod(0o644)

    publish(path, {"token": "t"}, is_secret=True)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_published(path) == {"token": "t"}
    assert list(tmp_path.iterdir()) == [path]
