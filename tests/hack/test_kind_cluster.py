"""`hack/kind` without its programs, and with stand-ins that record their calls."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("docker", "kind", "kubectl")


def stand_in(directory: Path, program: str, script: str = "") -> None:
    """A program that appends its name and arguments to `calls`."""
    path = directory / program
    path.write_text(f'#!/bin/sh\necho "{program} $*" >> {directory}/calls\n{script}\n')
    path.chmod(0o755)


def hack_kind(path: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "hack.dev.kind_cluster", *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("missing", PROGRAMS)
def test_a_program_that_is_missing_is_named_in_one_line_with_a_remedy(missing: str, tmp_path: Path) -> None:
    for program in PROGRAMS:
        if program != missing:
            stand_in(tmp_path, program)

    done = hack_kind(tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: hack/kind needs {missing}, which is not on PATH: install ")
    assert done.stderr.count("\n") == 1


def test_a_docker_engine_that_does_not_run_is_reported_in_one_line(tmp_path: Path) -> None:
    for program in PROGRAMS:
        stand_in(tmp_path, program, "exit 1")

    done = hack_kind(tmp_path)

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "`docker info` fails: start it, or use ./hack/up" in done.stderr


def test_it_creates_the_cluster_once_builds_loads_installs_and_waits(tmp_path: Path) -> None:
    for program in PROGRAMS:
        stand_in(tmp_path, program)
    stand_in(tmp_path, "kind", 'if [ "$1 $2" = "get clusters" ]; then echo other; fi')

    done = hack_kind(tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "kubectl create token gpuruntime-developer" in done.stdout
    rollout = "kubectl --context kind-gpuruntime rollout {} deployment/gpuruntime-{} --namespace gpuruntime-system"
    assert (tmp_path / "calls").read_text().splitlines() == [
        "docker info",
        "kind get clusters",
        "kind create cluster --name gpuruntime --wait 120s",
        "docker build --tag gpuruntime:dev .",
        "kind load docker-image gpuruntime:dev --name gpuruntime",
        "kubectl --context kind-gpuruntime apply --kustomize manifests/overlays/dev",
        *(
            rollout.format(step, process) + end
            for process in ("controller-manager", "runtime-api")
            for step, end in (("restart", ""), ("status", " --timeout 180s"))
        ),
    ]


def test_a_failed_step_ends_the_command_and_keeps_an_existing_cluster(tmp_path: Path) -> None:
    for program in PROGRAMS:
        stand_in(tmp_path, program)
    stand_in(tmp_path, "kind", "echo gpuruntime")
    stand_in(tmp_path, "docker", '[ "$1" = info ]')

    done = hack_kind(tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith("error: `docker build --tag gpuruntime:dev .` ")
    assert done.stderr.count("\n") == 1
    assert "create" not in (tmp_path / "calls").read_text()


def test_help_describes_the_command_and_the_alternative(tmp_path: Path) -> None:
    done = hack_kind(tmp_path, "--help")

    assert done.returncode == 0
    assert "--delete" in done.stdout
    assert "hack/up" in done.stdout
