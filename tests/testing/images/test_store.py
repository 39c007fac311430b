"""A store has whole images, also with many writers."""

import hashlib
import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuruntime.testing.images import File, ImageStore
from gpuruntime.testing.images.layers import layer
from tests.programs import require_program


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images")


def manifest_of(store: ImageStore, name: str) -> Any:
    digest = store.digest(name)
    assert digest is not None
    return document(store, digest)


def config_of(store: ImageStore, name: str) -> Any:
    return document(store, manifest_of(store, name)["config"]["digest"])


def document(store: ImageStore, digest: str) -> Any:
    path = store.blob(digest)
    assert path is not None
    return json.loads(path.read_bytes())


# The store may keep what earlier examples wrote.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from(["/a", "/b/c", "/d"]), st.binary(max_size=64), min_size=1), max_size=4))
def test_every_blob_has_the_digest_and_size_of_its_bytes(store: ImageStore, layers: list[dict[str, bytes]]) -> None:
    store.add("x", layers=layers)

    manifest = manifest_of(store, "x")
    for one in [manifest["config"], *manifest["layers"]]:
        path = store.blob(one["digest"])
        assert path is not None
        assert (one["digest"], one["size"]) == (
            f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}",
            path.stat().st_size,
        )
    digests = [f"sha256:{hashlib.sha256(layer(files).to_bytes()).hexdigest()}" for files in layers]
    assert [one["digest"] for one in manifest["layers"]] == digests
    assert config_of(store, "x")["rootfs"]["diff_ids"] == digests


def test_equal_images_have_equal_digests_in_all_stores(tmp_path: Path) -> None:
    first, second = ImageStore(tmp_path / "1"), ImageStore(tmp_path / "2")

    for store in (first, second):
        store.add("x", {"/a": "1"}, command=["/a"], environment={"B": "2"})

    assert first.digest("x") == second.digest("x")


def test_a_container_starts_as_the_image_says(store: ImageStore) -> None:
    name = store.add(
        "team/x:1",
        {"/a": "1"},
        entrypoint=["/a"],
        command=["-v"],
        user="65532:65532",
        environment={"A": "b=c"},
        working_directory="/srv",
    )

    assert name == "docker.io/team/x:1"
    assert config_of(store, "team/x:1")["config"] == {
        "Entrypoint": ["/a"],
        "Cmd": ["-v"],
        "User": "65532:65532",
        "Env": ["A=b=c"],
        "WorkingDir": "/srv",
    }


def test_an_image_inherits_from_its_base_like_a_dockerfile(store: ImageStore) -> None:
    store.add("base", {"/a": "1"}, entrypoint=["/a"], command=["-v"], user="1", environment={"A": "1", "B": "2"})

    store.add("same", {"/b": "2"}, base="base", environment={"B": "3"})
    store.add("other", base="base", entrypoint=["/b"])

    assert config_of(store, "same")["config"] == {
        "Entrypoint": ["/a"],
        "Cmd": ["-v"],
        "User": "1",
        "Env": ["A=1", "B=3"],
    }
    assert manifest_of(store, "same")["layers"][:1] == manifest_of(store, "base")["layers"]
    assert "Cmd" not in config_of(store, "other")["config"]


def test_a_base_that_is_not_there_is_refused_with_those_that_are(store: ImageStore) -> None:
    store.add("mine", {"/a": "1"})

    with pytest.raises(ValueError, match=r"'other'.*busybox, python, docker\.io/library/mine:latest"):
        store.add("x", base="other")


def test_a_name_moves_to_the_next_image_and_can_be_removed(store: ImageStore) -> None:
    store.add("x", {"/a": "1"})
    before = store.digest("x")

    store.add("x", {"/a": "2"})
    after = store.digest("x")
    store.remove("x")

    assert before != after
    assert before is not None
    assert store.blob(before) is not None
    assert store.digest("x") is None
    assert store.names() == []


def test_many_writers_leave_whole_images_and_no_drafts(store: ImageStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.add(f"x{number % 3}", {"/a": str(number % 3)}), range(40)))

    assert [len(manifest_of(store, name)["layers"]) for name in store.names()] == [1, 1, 1]
    assert list((store.directory / "scratch").iterdir()) == []


def test_a_failed_image_leaves_no_drafts_and_no_name(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.add("x", {"/a": File(tmp_path / "missing")})

    assert list((store.directory / "scratch").iterdir()) == []
    assert store.names() == []


@pytest.mark.parametrize("digest", ["", "sha256:", "sha256:../../x", "sha512:" + "0" * 64, "sha256:" + "G" * 64])
def test_only_a_digest_names_a_blob(store: ImageStore, digest: str) -> None:
    store.add("x", {"/a": "1"})

    assert store.blob(digest) is None


@pytest.mark.parametrize(
    ("base", "command"),
    [
        ("busybox", ["/bin/sh", "-c", "echo it runs | tr a-z A-Z"]),
        ("python", ["/usr/local/bin/python", "-c", "import asyncio, ctypes, sqlite3, ssl; print('IT RUNS')"]),
    ],
)
def test_the_programs_of_a_base_run_without_this_machine(
    store: ImageStore, tmp_path: Path, base: str, command: list[str]
) -> None:
    require_program("busybox")
    if os.geteuid() != 0:
        pytest.skip("only root may change the root directory")
    chroot = shutil.which("chroot", path="/usr/sbin:/sbin")
    assert chroot is not None
    store.add("x", base=base)
    root = tmp_path / "root"
    root.mkdir()
    for one in manifest_of(store, "x")["layers"]:
        subprocess.run(["tar", "-xf", str(store.blob(one["digest"])), "-C", str(root)], check=True)

    done = subprocess.run([chroot, str(root), *command], capture_output=True, text=True, check=False, env={})

    assert (done.stdout, done.stderr) == ("IT RUNS\n", "")
