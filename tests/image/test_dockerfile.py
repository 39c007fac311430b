"""Static checks of the Dockerfile."""

import pytest

from gpuruntime.processes.command import main
from hack.dev.dockerfile import ROOT, read_dockerfile

DOCKERFILE = read_dockerfile((ROOT / "Dockerfile").read_text())


def test_every_copied_file_exists_and_is_not_ignored() -> None:
    copies = [words.split() for stage in DOCKERFILE.stages for words in stage.all("COPY")]
    sources = [source for *given, _target in copies if not given[0].startswith("--from") for source in given]
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert sources
    assert all((ROOT / source).exists() for source in sources)
    assert set(sources) <= allowed


def test_the_image_runs_as_the_user_of_the_manifests_with_an_existing_command() -> None:
    assert DOCKERFILE.user == (65532, 65532)
    with pytest.raises(SystemExit, match="0"):
        main([DOCKERFILE.command[0], "--help"])


def test_the_base_image_is_a_pinned_python_version() -> None:
    bases = {stage.base for stage in DOCKERFILE.stages}

    assert bases == {"python:3.13-slim"}
    assert (
        f"Python :: {bases.pop().removeprefix('python:').removesuffix('-slim')}\n" in (ROOT / "setup.cfg").read_text()
    )
