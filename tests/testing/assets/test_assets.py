import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from gpuruntime.testing import assets
from gpuruntime.testing.assets import CONTROL_PLANE, NODE, build, go_toolchain
from gpuruntime.testing.assets.binary_sets import GoModule
from gpuruntime.testing.progress import Progress
from tests.programs import require_program

QUIET = Progress(io.StringIO())
FAKE_GO = """#!/bin/sh
# Stands where Go would: answers the version, lists one package, and "builds" by writing its arguments into the output.
case "$1" in
env) echo go1.99.0 ;;
list) echo some/package ;;
build)
    echo some/package >&2
    {on_build}
    while [ "$1" != "-o" ]; do shift; done
    mkdir -p "$(dirname "$2")"
    echo "$@" > "$2"
    chmod +x "$2" ;;
esac
"""


def fake_go(directory: Path, on_build: str = ":") -> Path:
    directory.mkdir(exist_ok=True)
    go = directory / "go"
    go.write_text(FAKE_GO.format(on_build=on_build))
    go.chmod(0o755)
    return go


def complete(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name in CONTROL_PLANE.binaries:
        (directory / name).touch(mode=0o755)
    return directory


def test_a_complete_kubebuilder_assets_wins(tmp_path: Path) -> None:
    given = complete(tmp_path / "given")

    assert assets.locate({"KUBEBUILDER_ASSETS": str(given), "XDG_CACHE_HOME": str(tmp_path)}) == given


def test_an_incomplete_kubebuilder_assets_is_ignored(tmp_path: Path) -> None:
    given = complete(tmp_path / "given")
    (given / "kwok").unlink()

    assert assets.missing(given) == ["kwok"]
    assert assets.locate({"KUBEBUILDER_ASSETS": str(given), "XDG_CACHE_HOME": str(tmp_path)}) is None


def test_a_build_appears_under_its_name_only_when_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{fake_go(tmp_path / 'bin').parent}:{os.environ['PATH']}")
    target = tmp_path / "cache" / "target"

    assert build.build(CONTROL_PLANE, tmp_path / "cache", target, QUIET) == target

    assert not assets.missing(target)
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["build.lock", "target"]


def test_the_node_is_a_set_of_its_own_beside_the_control_plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{fake_go(tmp_path / 'bin').parent}:{os.environ['PATH']}")
    environ = {"KUBEBUILDER_ASSETS": str(complete(tmp_path / "given")), "XDG_CACHE_HOME": str(tmp_path)}
    assert assets.locate(environ, of=NODE) is None

    node = assets.ensure(environ, of=NODE)

    assert not assets.missing(node, of=NODE)
    assert assets.locate(environ, of=NODE) == node
    assert assets.locate(environ) == tmp_path / "given"


def test_both_sets_pin_the_same_kubernetes() -> None:
    versions = {
        GoModule(path, {}).pinned("k8s.io/kubernetes") for path in (("controlplane",), ("nodeplane", "kubernetes"))
    }

    assert len(versions) == 1


def test_a_pin_a_flag_and_a_source_of_ours_each_change_the_name_of_the_cache() -> None:
    kubernetes, containers = NODE.modules

    digests = {
        NODE.digest(),
        evolve(NODE, modules=(kubernetes,)).digest(),
        evolve(NODE, modules=(kubernetes, evolve(containers, tags=()))).digest(),
        evolve(NODE, modules=(kubernetes, evolve(containers, binaries={"pause": "./dns"}))).digest(),
    }

    assert len(digests) == 4


def test_a_failed_build_leaves_nothing_and_says_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = fake_go(tmp_path / "bin", on_build="echo 'dial tcp: no route to host' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")

    with pytest.raises(build.BuildError, match=r"etcd.*no route to host.*GOPROXY"):
        build.build(CONTROL_PLANE, tmp_path / "cache", tmp_path / "cache" / "target", QUIET)

    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["build.lock"]


def test_the_next_build_removes_the_files_of_a_killed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pgrep = require_program("pgrep")
    cache, target = tmp_path / "cache", tmp_path / "cache" / "target"
    go = fake_go(tmp_path / "bin", on_build=f"touch {tmp_path}/building; kill -STOP $$")
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")
    with build_in_another_process(cache, target) as victim:
        await_file(tmp_path / "building")
        stopped = int(subprocess.check_output([pgrep, "--parent", str(victim.pid)]))
        victim.kill()
    os.kill(stopped, signal.SIGKILL)
    assert list(cache.glob(".build-*"))

    fake_go(tmp_path / "bin")
    build.build(CONTROL_PLANE, cache, target, QUIET)

    assert not assets.missing(target)
    assert not list(cache.glob(".build-*"))


def test_two_concurrent_builds_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, target = tmp_path / "cache", tmp_path / "cache" / "target"
    go = fake_go(tmp_path / "bin", on_build=f"echo x >> {tmp_path}/builds")
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")

    with build_in_another_process(cache, target) as one, build_in_another_process(cache, target) as other:
        assert one.wait() == 0
        assert other.wait() == 0

    assert (tmp_path / "builds").read_text().split() == ["x"] * len(CONTROL_PLANE.binaries)
    assert not assets.missing(target)


def test_without_go_and_without_a_registry_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(go_toolchain.ToolchainError, match=r"Go 1.26.0.*KUBEBUILDER_ASSETS"):
        go_toolchain.find_go("1.26.0", tmp_path, QUIET)


def test_a_recent_go_on_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = fake_go(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")

    assert go_toolchain.find_go("1.26.0", tmp_path, QUIET) == go_toolchain.Go(str(go))


def test_a_full_disk_is_reported_before_the_build_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_NEEDED_GIB", 10**9)

    with pytest.raises(build.BuildError, match=r"1000000000.*XDG_CACHE_HOME"):
        build.build(CONTROL_PLANE, tmp_path, tmp_path / "target", QUIET)


def build_in_another_process(cache: Path, target: Path) -> subprocess.Popen[bytes]:
    script = (
        "import sys; from pathlib import Path;"
        "from gpuruntime.testing.assets import CONTROL_PLANE, build; from gpuruntime.testing.progress import Progress;"
        f"build.build(CONTROL_PLANE, Path({str(cache)!r}), Path({str(target)!r}), Progress(sys.stderr))"
    )
    return subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)


def await_file(path: Path) -> None:
    while not path.exists():
        os.sched_yield()
