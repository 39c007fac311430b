"""The peers: a script each, which names what it needs in its own inline metadata, and an environment each.

The metadata is the block `# /// script` of the packaging standards: `dependencies` pins everything, down to the last
transitive one; `[tool.benching]` holds `imports`, what a user of the peer imports, and `note`, how it takes part.
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
        """The pinned version of the package that has the peer's name."""
        pins = dict(requirement.split("==", 1) for requirement in self.requirements)
        return pins[self.name]


def load_peers() -> tuple[Peer, ...]:
    return tuple(_load(script) for script in sorted(_DIRECTORY.glob(f"{_PREFIX}*.py")))


def peer_python(peer: Peer, cache: Path, progress: Progress) -> Path:
    """The interpreter of the peer's environment in `cache`, which is made first if need be.

    An environment cannot be moved, so it is made in place: a stamp that is written last says that it is complete.

    Raises:
        SetUpError: it could not be made.
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
    benching = metadata["tool"]["benching"]
    return Peer(
        name=script.stem.removeprefix(_PREFIX),
        script=script,
        requirements=tuple(metadata["dependencies"]),
        imports=tuple(benching["imports"]),
        note=benching["note"],
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
