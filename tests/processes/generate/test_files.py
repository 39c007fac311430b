from pathlib import Path

from gpuruntime.processes.generate.files import Generated

HEADER = "# made by a test\n"


def test_files_are_written_once_and_are_then_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.yaml"
    generated = Generated(HEADER, {path: f"{HEADER}a: 1\n"})

    assert generated.stale() == [f"{path} is missing"]
    assert generated.write() == [f"wrote {path}"]

    assert path.read_text() == f"{HEADER}a: 1\n"
    assert generated.stale() == []
    assert generated.write() == []


def test_a_stale_file_is_reported_with_the_first_line_that_differs(tmp_path: Path) -> None:
    changed, cut = tmp_path / "a.yaml", tmp_path / "b.yaml"
    changed.write_text(f"{HEADER}a: 1\nb: 2\n")
    cut.write_text(HEADER)

    stale = Generated(HEADER, {changed: f"{HEADER}a: 1\nb: 3\n", cut: f"{HEADER}a: 1\n"}).stale()

    assert stale == [
        f"{changed} is stale: line 3 is 'b: 2', expected 'b: 3'",
        f"{cut} is stale: line 2 is the end, expected 'a: 1'",
    ]


def test_a_file_that_is_no_longer_generated_is_removed_and_foreign_files_stay(tmp_path: Path) -> None:
    old, foreign = tmp_path / "old.yaml", tmp_path / "foreign.yaml"
    old.write_text(f"{HEADER}a: 1\n")
    foreign.write_text("a: 1\n")
    generated = Generated(HEADER, {}, tmp_path)

    assert generated.stale() == [f"{old} is left over: it is no longer generated"]
    assert generated.write() == [f"removed {old}"]

    assert list(tmp_path.iterdir()) == [foreign]
