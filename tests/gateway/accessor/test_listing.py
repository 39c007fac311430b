import os
from pathlib import Path

import pytest

from gpuruntime.gateway.accessor import listing
from gpuruntime.gateway.accessor.listing import as_html, as_json, list_directory


def test_names_that_are_no_text_can_be_listed_and_followed(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.bin")).write_bytes(b"1")
    fd = os.open(tmp_path, os.O_RDONLY)

    found = list_directory(fd)
    os.close(fd)

    assert [entry.href for entry in found.entries] == ["./%FF.bin"]
    assert as_json(found)
    assert b"%FF.bin" in as_html(found, is_root=True)


def test_a_large_directory_is_cut_off_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_ENTRIES", 3)
    for number in range(5):
        (tmp_path / str(number)).touch()
    fd = os.open(tmp_path, os.O_RDONLY)

    found = list_directory(fd)
    os.close(fd)

    assert (len(found.entries), found.is_truncated) == (3, True)
    assert b'"truncated":true' in as_json(found)
