"""Images and containers without a container engine: Linux namespaces, with this machine as the base image.

A stage is an overlay over the root of this machine, a container a read-only one in its own mount namespace. Its
processes have the user of the image and no capabilities. Network and PIDs are those of the machine.
"""

import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import field, frozen

from hack.dev.dockerfile import Dockerfile
from hack.dev.dockerfile_build import STAGES, apart, build_overlay, readable_python

__all__ = ["Container", "Image", "build"]

_UNPRIVILEGED: Final = "--clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all"


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
        script = [STAGES, f"stage image {shlex.quote(str(self.files))}", readable_python()]
        for place, text in files.items():
            # From inside, where a link like /var/run stays inside the stage.
            write = f"mkdir -p {Path(place).parent}; printf %s {shlex.quote(text)} > {place}"
            script.append(f'chroot "$root" sh -euc {shlex.quote(write)}')
        script += ['mount -o remount,ro "$root"', f'exec chroot "$root" {self._command(arguments, environment)}']
        with (
            TemporaryDirectory() as stages,
            log.open("wb") as output,
            subprocess.Popen(
                apart("\n".join(script), stages),
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
    """Build the Dockerfile in `directory`; see `build_overlay`."""
    build_overlay(dockerfile, directory)
    return Image(dockerfile, directory)
