"""The contenders: our variants, the Go reference, and the peers, each ready to start."""

import importlib.util
import sys
from pathlib import Path

from attrs import frozen

from gpuruntime.testing.progress import Progress
from hack.benchmarks.cache import SetUpError
from hack.benchmarks.contenders import Contender
from hack.benchmarks.go_program import controller_runtime_version, go_program
from hack.benchmarks.peer_scripts import Peer, load_peers, peer_python

__all__ = ["GO", "Catalogue", "Variant", "loops"]

GO = "go"
_HERE = Path(__file__).resolve().parent
# For `hack.benchmarks.contender_program`, which needs only the standard library.
_PYTHONPATH = {"PYTHONPATH": str(_HERE.parents[1])}


@frozen
class Variant:
    """One way to run our program: its name after "ours", and its arguments."""

    name: str
    arguments: tuple[str, ...]

    @property
    def contender(self) -> str:
        return f"ours {self.name}"


@frozen
class Catalogue:
    """Creates contenders. One that cannot be set up is marked as broken; the others are still measured."""

    cache: Path
    progress: Progress

    def ours(self, script: str, variants: tuple[Variant, ...]) -> tuple[Contender, ...]:
        """A script of hack/benchmarks/ours, once per variant."""
        path = str(_HERE / "ours" / script)
        return tuple(
            Contender(
                variant.contender,
                (sys.executable, "-P", path, *variant.arguments),
                environment=_PYTHONPATH,
            )
            for variant in variants
        )

    def go(self, part: str = "cache") -> Contender:
        """The program in Go; `part` names the part of controller-runtime that is measured."""
        note = f"controller-runtime {controller_runtime_version()} {part}"
        try:
            return Contender(GO, (str(go_program(self.cache, self.progress)),), note)
        except SetUpError as error:
            return Contender(GO, (), note, broken=str(error))

    def peers(self) -> tuple[Contender, ...]:
        """The script of every peer."""
        return tuple(self._peer(peer, peer.note, (str(peer.script),)) for peer in load_peers())

    def imports(self, module: str) -> tuple[Contender, ...]:
        """The import of our `module`, and of the modules that users of each peer import."""
        probe = str(_HERE / "import_probe.py")
        ours = Contender("ours", (sys.executable, "-P", probe, module), module, _PYTHONPATH)
        peers = (self._peer(peer, ", ".join(peer.imports), (probe, *peer.imports)) for peer in load_peers())
        return (ours, *peers)

    def _peer(self, peer: Peer, note: str, arguments: tuple[str, ...]) -> Contender:
        note = f"{peer.version}, {note}"
        try:
            python = str(peer_python(peer, self.cache, self.progress))
        except SetUpError as error:
            return Contender(peer.name, (), note, broken=str(error))
        return Contender(peer.name, (python, "-P", *arguments), note, _PYTHONPATH)


def loops() -> tuple[Variant, ...]:
    """One variant per installed event loop, uvloop first."""
    plain = Variant("asyncio", ("--loop", "asyncio"))
    if importlib.util.find_spec("uvloop") is None:
        return (plain,)
    return (Variant("uvloop", ("--loop", "uvloop")), plain)
