"""Layers are archives that depend on nothing but the files in them."""

import io
import random
import string
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.testing.images.layers import Directory, Entry, File, Layer, Link, layer, tree

# Any bytes that Linux allows in a name, as Python has them: those that are no UTF-8 are lone surrogates.
NAMES = (
    st.binary(min_size=1, max_size=140)
    .map(lambda name: name.replace(b"\0", b"x").replace(b"/", b"y").decode("utf-8", "surrogateescape"))
    .filter(lambda name: name not in {".", ".."} and not name.startswith(".wh."))
)
MODES = st.integers(0, 0o7777)
LEAVES: st.SearchStrategy[Entry] = st.one_of(
    st.builds(File, st.binary(max_size=2000), MODES, st.integers(0, 2**33 - 1)),
    st.builds(Link, NAMES),
    st.builds(Directory, MODES),
)
# Files are on the second floor and directories on the first, so that no file is above another.
FILES = st.dictionaries(st.tuples(NAMES, NAMES), LEAVES, max_size=8).map(
    lambda files: {f"/{first}/{second}": entry for (first, second), entry in files.items()}
)


def unpacked(archive: bytes) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), encoding="utf-8", errors="surrogateescape") as tar:
        for member in tar:
            path = f"/{member.name}"
            if member.isdir():
                found[path] = Directory(member.mode)
            elif member.issym():
                found[path] = Link(member.linkname)
            else:
                content = tar.extractfile(member)
                assert content is not None
                found[path] = File(content.read(), member.mode, int(member.mtime))
            assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
    return found


@given(FILES)
def test_an_archive_has_every_name_mode_and_content(files: dict[str, Entry]) -> None:
    assert unpacked(layer(files).to_bytes()) == files


@given(FILES, st.randoms(use_true_random=False))
def test_the_order_in_which_files_are_given_does_not_matter(files: dict[str, Entry], chance: random.Random) -> None:
    shuffled = list(files.items())
    chance.shuffle(shuffled)

    assert layer(dict(shuffled)).to_bytes() == layer(files).to_bytes()


@given(FILES)
def test_a_directory_comes_before_what_is_in_it(files: dict[str, Entry]) -> None:
    above = {path.rpartition("/")[0]: Directory() for path in files}

    paths = [path for path, _ in layer({**files, **above}).entries]

    assert all(paths.index(path.rpartition("/")[0]) < paths.index(path) for path in files)


def test_texts_bytes_and_paths_are_files(tmp_path: Path) -> None:
    script, note = tmp_path / "script", tmp_path / "note"
    script.write_text("#!/bin/sh")
    script.chmod(0o740)
    note.write_text("x")
    note.chmod(0o600)

    made = layer({"/a": "ä", "/b": b"\xff", "/c": script, "/d": note})

    assert made == Layer(
        (("/a", File("ä".encode())), ("/b", File(b"\xff")), ("/c", File(script, 0o755)), ("/d", File(note)))
    )


def test_a_directory_on_disk_is_copied_with_all_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "deep" / "empty").mkdir(parents=True)
    (tmp_path / "deep" / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("deep")

    found = unpacked(layer({"/app": tmp_path}).to_bytes())

    assert found == {
        "/app": Directory(),
        "/app/deep": Directory(),
        "/app/deep/empty": Directory(),
        "/app/deep/file": File(b"1"),
        "/app/link": Link("deep"),
    }


def test_a_tree_keeps_times_and_leaves_names_out(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "x").touch()
    (tmp_path / "kept").touch()

    found = tree(tmp_path, "/", without=frozenset({"tests"}))

    assert found == {"/kept": File(tmp_path / "kept", 0o644, int((tmp_path / "kept").stat().st_mtime))}


@pytest.mark.parametrize(
    "path", ["", "/", "a", "//a", "/a/", "/a//b", "/a/./b", "/../a", "/a\0b", "/.wh.a", "/a/.wh.b/c"]
)
def test_a_path_that_no_archive_can_have_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="files"):
        layer({path: "x"})


@pytest.mark.parametrize("above", ["text", Link("/elsewhere")])
def test_a_file_below_a_file_is_refused(above: str | Link) -> None:
    with pytest.raises(ValueError, match="/a/b/c is below /a"):
        layer({"/a": above, "/a/b/c": "x"})


def test_a_large_file_is_read_when_the_layer_is_written(tmp_path: Path) -> None:
    large = tmp_path / "large"
    made = layer({"/large": File(large)})
    large.write_text(string.ascii_letters * 1000)

    assert unpacked(made.to_bytes()) == {"/large": File(large.read_bytes())}
