"""The peers: one script each, with inline metadata, and one virtual environment each.

The metadata is the block `# /// script` of the packaging standards: `dependencies` pins all packages, transitive ones
included; `[tool.bench]` has `imports`, the modules that users of the peer import, and `note`, how the peer takes part.
"""

import hashlib
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from attrs import frozen

from gpuruntime.testing.progress import Progress
from hack.benchmarks.cache import SetUpError, exclusive

__all__ = ["Peer", "load_peers", "peer_python"]

_DIRECTORY = Path(__file__).resolve().parent / "peers"
_PREFIX = "with_"
_BLOCK = re.compile(r"^# /// script$\n(?P<content>(?:^#(?:| .*)$\n)+)^# ///$", re.MULTILINE)


@frozen
class Peer:
    """A peer as its script describes it."""

    name: str
    script: Path
    requirements: tuple[str, ...]
    imports: tuple[str, ...]
    note: str

    @property
    def version(self) -> str:
        """The pinned version of the package with the peer's name."""
        pins = dict(requirement.split("==", 1) for requirement in self.requirements)
        return pins[self.name]


def load_peers() -> tuple[Peer, ...]:
    return tuple(_load(script) for script in sorted(_DIRECTORY.glob(f"{_PREFIX}*.py")))


def peer_python(peer: Peer, cache: Path, progress: Progress) -> Path:
    """The interpreter of the peer's environment in `cache`; the environment is created first if it is missing.

    An environment cannot be moved, so it is created in place. A stamp file that is written last marks it as complete.


    Raises:
        SetUpError: it could not be created.
    """
    digest = hashlib.sha256("\n".join([sys.version, sys.base_prefix, *peer.requirements]).encode()).hexdigest()
    target = cache / f"{peer.name}-{digest[:12]}"
    stamp = target / "complete"
    if not stamp.exists():
        with exclusive(target, progress):
            if not stamp.exists():
                progress.step(f"setting up {peer.name} {peer.version} in an environment of its own, once")
                _make(target, peer)
                stamp.touch()
    return target / "bin" / "python"


def _load(script: Path) -> Peer:
    match = _BLOCK.search(script.read_text())
    if match is None:
        raise SetUpError(f"{script} has no block '# /// script': add one with its dependencies")
    lines = match.group("content").splitlines()
    metadata = tomllib.loads("\n".join(line[2:] for line in lines))
    bench = metadata["tool"]["bench"]
    return Peer(
        name=script.stem.removeprefix(_PREFIX),
        script=script,
        requirements=tuple(metadata["dependencies"]),
        imports=tuple(bench["imports"]),
        note=bench["note"],
    )


def _make(target: Path, peer: Peer) -> None:
    try:
        venv.create(target, with_pip=True, clear=True)
    except subprocess.CalledProcessError as error:
        raise SetUpError(
            f"{sys.executable} cannot make virtual environments ({error}): install its venv module"
        ) from error
    pip = [
        str(target / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    done = subprocess.run([*pip, *peer.requirements], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise SetUpError(
            f"{peer.name} cannot be installed: {words[-1]}: check that pip reaches its package index and run again"
        )
