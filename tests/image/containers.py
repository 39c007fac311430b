"""Images and containers without a container engine: Linux namespaces, with this machine as the base image.

A stage is an overlay over the root of this machine, a container a read-only one in its own mount namespace. Its
processes have the user of the image and no capabilities. Network and PIDs are those of the machine.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import field, frozen

from tests.image.dockerfile import ROOT, Dockerfile, Stage

__all__ = ["Container", "Image", "build", "why_not"]

_PRELUDE: Final = """
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
_UNPRIVILEGED: Final = "--clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all"


def why_not() -> str | None:
    """What this machine lacks to run containers; None if it has everything."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs Linux and root, for mounts"
    with TemporaryDirectory() as stages:
        done = subprocess.run(_apart(_PRELUDE + "stage probe", stages), capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"cannot mount an overlay: {done.stderr.strip()}"


@frozen
class Image:
    """A built image: `files` is its overlay over the base."""

    dockerfile: Dockerfile = field(repr=False)
    files: Path

    @contextmanager
    def run(
        self, *arguments: str, environment: Mapping[str, str], files: Mapping[str, str], log: Path
    ) -> Iterator["Container"]:
        """Run a process of the image with further files, as a pod mounts them; stopped at the end of the block."""
        script = [_PRELUDE, f"stage image {shlex.quote(str(self.files))}", _readable_python()]
        for place, text in files.items():
            # From inside, where a link like /var/run stays inside the stage.
            write = f"mkdir -p {Path(place).parent}; printf %s {shlex.quote(text)} > {place}"
            script.append(f'chroot "$root" sh -euc {shlex.quote(write)}')
        script += ['mount -o remount,ro "$root"', f'exec chroot "$root" {self._command(arguments, environment)}']
        with (
            TemporaryDirectory() as stages,
            log.open("wb") as output,
            subprocess.Popen(
                _apart("\n".join(script), stages),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                yield Container(process, log)
            finally:
                if process.poll() is None:
                    process.kill()

    def _command(self, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
        user, group = self.dockerfile.user
        base = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        own = {name: value.replace("$PATH", base["PATH"]) for name, value in self.dockerfile.environment.items()}
        variables = [f"{name}={value}" for name, value in {**base, **own, **environment}.items()]
        words = ["env", "--ignore-environment", "--chdir=/", *variables, *self.dockerfile.entrypoint, *arguments]
        return f"setpriv --reuid {user} --regid {group} {_UNPRIVILEGED} {shlex.join(words)}"


@frozen
class Container:
    """A running process of an image; PID and exit code are those of the process itself."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def words(self) -> str:
        return self.log.read_text()


def build(dockerfile: Dockerfile, directory: Path) -> Image:
    """Build the Dockerfile, stage by stage, in `directory`.

    Raises:
        subprocess.CalledProcessError: a step failed; its output is on standard error.
    """
    script = [_PRELUDE]
    for number, stage in enumerate(dockerfile.stages):
        script += _build_stage(stage, stage.name or f"stage-{number}")
    script.append(f'cp -a "${{root%/root}}/upper/." {shlex.quote(str(directory))}')
    directory.mkdir()
    with TemporaryDirectory() as stages:
        subprocess.run(_apart("\n".join(script), stages), check=True)
    return Image(dockerfile, directory)


def _apart(script: str, stages: str) -> list[str]:
    """The command that runs a script in a private mount namespace, with a tmpfs on the directory `stages`."""
    return ["unshare", "--mount", "sh", "-c", script, "sh", stages]


def _build_stage(stage: Stage, name: str) -> Iterator[str]:
    yield f"stage {name}"
    yield _readable_python()
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


def _readable_python() -> str:
    """The Python of this machine as `python` of the base image, even if only root may enter its directory."""
    executable = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    lines = [f'chmod a+rx "$root{parent}"' for parent in executable.parents if parent != Path("/")]
    return "\n".join([*lines, f'ln -sf {shlex.quote(str(executable))} "$root/usr/local/bin/python"'])
