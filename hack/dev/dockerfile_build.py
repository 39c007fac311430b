"""The Dockerfile built without a container engine: Linux namespaces, with this machine as the base image.

A stage is an overlay over the root of this machine, which the commands of the Dockerfile change as they would change
their base image.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hack.dev.dockerfile import ROOT, Dockerfile, Stage

__all__ = ["STAGES", "apart", "build_overlay", "readable_python", "why_not"]

STAGES: Final = """
set -eu
stages=$1
mount -t tmpfs stages "$stages"
stage() {
    mkdir -p "$stages/$1/upper" "$stages/$1/work" "$stages/$1/root"
    if [ -n "${2:-}" ]; then cp -a "$2/." "$stages/$1/upper"; fi
    root="$stages/$1/root"
    mount -t overlay stage -o "lowerdir=/,upperdir=$stages/$1/upper,workdir=$stages/$1/work" "$root"
    mount --rbind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
}
"""


def why_not() -> str | None:
    """What this machine lacks to run containers; None if it has everything."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs Linux and root, for mounts"
    with TemporaryDirectory() as stages:
        done = subprocess.run(apart(STAGES + "stage probe", stages), capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"cannot mount an overlay: {done.stderr.strip()}"


def build_overlay(dockerfile: Dockerfile, directory: Path) -> None:
    """Build the Dockerfile, stage by stage; `directory` has what the last one changed, also on this machine's Python.

    Raises:
        subprocess.CalledProcessError: a step failed; its output is on standard error.
    """
    script = [STAGES]
    for number, stage in enumerate(dockerfile.stages):
        script += _build_stage(stage, stage.name or f"stage-{number}")
    script.append(f'cp -a "${{root%/root}}/upper/." {shlex.quote(str(directory))}')
    directory.mkdir()
    with TemporaryDirectory() as stages:
        subprocess.run(apart("\n".join(script), stages), check=True)


def apart(script: str, stages: str) -> list[str]:
    """The command that runs a script in a private mount namespace, with a tmpfs on the directory `stages`."""
    return ["unshare", "--mount", "sh", "-c", script, "sh", stages]


def _build_stage(stage: Stage, name: str) -> Iterator[str]:
    yield f"stage {name}"
    yield readable_python()
    place = "/"
    for instruction, rest in stage.steps:
        if instruction == "WORKDIR":
            place = rest
            yield f'mkdir -p "$root{place}"'
        elif instruction == "COPY":
            yield _copy(rest, place)
        elif instruction == "RUN":
            yield f'chroot "$root" sh -euc {shlex.quote(f"cd {place}; {rest}")} >&2'


def _copy(rest: str, place: str) -> str:
    *sources, target = shlex.split(rest)
    origin = str(ROOT)
    if sources[0].startswith("--from="):
        origin = f"$stages/{sources.pop(0).removeprefix('--from=')}/root"
    goal = f"$root{Path(place) / target}"
    lines = []
    for source in sources:
        path = f"{origin}/{source.lstrip('/')}"
        # COPY copies the content of a directory, and a file into a directory.
        lines.append(f'if [ -d "{path}" ]; then mkdir -p "{goal}"; cp -a "{path}/." "{goal}"')
        lines.append(f'else mkdir -p "{goal}"; cp -a "{path}" "{goal}"; fi')
    return "\n".join(lines)


def readable_python() -> str:
    """The Python of this machine as `python` of the base image, even if only root may enter its directory."""
    executable = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    lines = [f'chmod a+rx "$root{parent}"' for parent in executable.parents if parent != Path("/")]
    return "\n".join([*lines, f'ln -sf {shlex.quote(str(executable))} "$root/usr/local/bin/python"'])
