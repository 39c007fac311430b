"""The image of accessors, made of this checkout and of the packages that it needs: quicker than the Dockerfile."""

from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

import gpuruntime
from gpuruntime.testing.images import Files, ImageStore, tree

__all__ = ["ACCESSOR_IMAGE", "add_accessor_image"]

ACCESSOR_IMAGE = "storage-test/gpuruntime:1"
_PACKAGES = "/packages"


def add_accessor_image(store: ImageStore) -> str:
    """Add the image to a store; returns its whole name."""
    return store.add(
        ACCESSOR_IMAGE,
        layers=[_dependencies(), tree(Path(gpuruntime.__path__[0]), f"{_PACKAGES}/gpuruntime")],
        base="python",
        entrypoint=["python3", "-m", "gpuruntime.processes.command"],
        user="65532:65532",
        environment={"PYTHONPATH": _PACKAGES, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def _dependencies() -> Files:
    files: dict[str, Path] = {}
    for found in _closure({}, Requirement("gpuruntime[access]")).values():
        for path in found.files or ():
            inside = PurePosixPath(path)
            if ".." not in inside.parts and found.metadata["Name"] != "gpuruntime":
                files[f"{_PACKAGES}/{inside}"] = Path(str(path.locate()))
    return files


def _closure(found: dict[str, Distribution], wanted: Requirement) -> dict[str, Distribution]:
    """The distributions that a requirement needs, by name."""
    one = distribution(wanted.name)
    if wanted.name in found and not wanted.extras:
        return found
    found[wanted.name] = one
    for text in one.requires or ():
        needed = Requirement(text)
        extras = wanted.extras or {""}
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
            _closure(found, needed)
    return found
