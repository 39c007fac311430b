"""The product's own image without Docker: what the Dockerfile builds, on the base image `python` of the test kit.

The Dockerfile is read, and its commands are run as they are. The interpreter is the one of this machine, not that of
the Dockerfile's base image.
"""

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from string import Template
from typing import Final

from gpuruntime.testing.images import File, Files, ImageStore, Link, tree
from gpuruntime.testing.images.bases import python, shared_libraries
from hack.dev.dockerfile import ROOT, Dockerfile, read_dockerfile
from hack.dev.dockerfile_build import build_overlay, why_not

__all__ = ["PRODUCT_IMAGE", "ImageBuildError", "add_product_image", "relocated"]

PRODUCT_IMAGE: Final = "gpuruntime:dev"
_PYTHON: Final = PurePosixPath("/usr/local/bin/python3")
_KEPT_SETTINGS: Final = frozenset({"include-system-site-packages", "version"})


class ImageBuildError(Exception):
    """The image could not be built; the message says why."""


def add_product_image(store: ImageStore, name: str = PRODUCT_IMAGE) -> str:
    """Build the image from this checkout, and add it to a store; returns its whole name. Needs root, and PyPI.

    Raises:
        ImageBuildError: this machine cannot build it, or a command of the Dockerfile failed.
    """
    reason = why_not()
    if reason is not None:
        raise ImageBuildError(f"the image cannot be built here: {reason}")
    dockerfile = read_dockerfile((ROOT / "Dockerfile").read_text())
    with tempfile.TemporaryDirectory(prefix="gpuruntime-image-") as directory:
        built = Path(directory) / "built"
        try:
            build_overlay(dockerfile, built)
        except subprocess.CalledProcessError as error:
            raise ImageBuildError("a command of the Dockerfile failed; its output is above") from error
        layers = [relocated(tree(built / target.lstrip("/"), target)) for target in _copied(dockerfile)]
        return store.add(
            name,
            layers=[*layers, *map(_needed_libraries, layers)],
            base="python",
            entrypoint=dockerfile.entrypoint,
            command=dockerfile.command,
            user=":".join(map(str, dockerfile.user)),
            environment=_environment(dockerfile),
        )


def _copied(dockerfile: Dockerfile) -> list[str]:
    """The directories that the last stage adds to its base image."""
    if dockerfile.image.all("RUN"):
        raise ImageBuildError("RUN: expected none in the last stage, which changes its base image in unknown paths")
    return [line.split()[-1] for line in dockerfile.image.all("COPY")]


def relocated(files: Files) -> Files:
    """The files of a virtual environment, whose links to this machine's interpreter lead to that of the image."""
    moved = dict(files)
    for path, entry in files.items():
        name = PurePosixPath(path).name
        if isinstance(entry, Link) and name.startswith("python") and entry.target.startswith("/"):
            moved[path] = Link(str(_PYTHON))
        elif isinstance(entry, File) and isinstance(entry.content, Path) and name == "pyvenv.cfg":
            lines = entry.content.read_text().splitlines()
            kept = [line for line in lines if line.partition(" = ")[0] in _KEPT_SETTINGS]
            moved[path] = "\n".join([f"home = {_PYTHON.parent}", *kept, ""])
    return moved


def _needed_libraries(files: Files) -> Files:
    """The shared libraries that extension modules need, and that the base image of the test kit may lack."""
    entries = [entry.content for entry in files.values() if isinstance(entry, File)]
    extensions = [content for content in entries if isinstance(content, Path) and content.suffix == ".so"]
    found = shared_libraries(extensions) if extensions else {}
    return {f"/usr/lib/{name}": File(path.resolve(), 0o755) for name, path in found.items() if "/" not in name}


def _environment(dockerfile: Dockerfile) -> Mapping[str, str]:
    """The variables of the image, with those of its base in place of `$NAME`."""
    base = python().environment
    return {name: Template(value).safe_substitute(base) for name, value in dockerfile.environment.items()}
