"""An image of this checkout as it runs here: its files, and the packages of its environment. It is made in a second.

`hack.dev.product_image` makes the one of the Dockerfile, from packages of the registry.
"""

from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.requirements import Requirement

import gpuruntime
from gpuruntime.testing.images import File, Files, ImageStore, tree
from gpuruntime.testing.images.bases import shared_libraries

__all__ = ["CHECKOUT_IMAGE", "FUNCTIONS_IMAGE", "add_checkout_image", "add_functions_image"]

CHECKOUT_IMAGE: Final = "gpuruntime:dev"
FUNCTIONS_IMAGE: Final = "functions:dev"
_PACKAGES: Final = "/packages"
_REQUIREMENT: Final = "gpuruntime[access]"
_FUNCTIONS: Final = "/functions"
_COMMAND: Final = b"""#!/usr/bin/env python3
from gpuruntime.processes.command import main

raise SystemExit(main())
"""


def add_checkout_image(store: ImageStore, name: str = CHECKOUT_IMAGE) -> str:
    """Add the image to a store; returns its whole name. Its entrypoint is `gpuruntime`."""
    packages = _dependencies()
    return store.add(
        name,
        {"/usr/local/bin/gpuruntime": File(_COMMAND, 0o755)},
        layers=[packages, _libraries(packages), tree(Path(gpuruntime.__path__[0]), f"{_PACKAGES}/gpuruntime")],
        base="python",
        entrypoint=["python3", "-m", "gpuruntime.processes.command"],
        user="65532:65532",
        environment={"PYTHONPATH": _PACKAGES, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
    )


def add_functions_image(store: ImageStore, functions: Path, name: str = FUNCTIONS_IMAGE) -> str:
    """Add an image of functions to a store: the SDK, and the files of a directory, in which it starts.

    A target such as `hello.py:hello` is thus the same in a pod and in a local worker.
    """
    sdk = Path(gpuruntime.__path__[0]) / "framework"
    return store.add(
        name,
        {f"{_PACKAGES}/gpuruntime/__init__.py": b""},
        layers=[tree(sdk, f"{_PACKAGES}/gpuruntime/framework"), tree(functions, _FUNCTIONS)],
        base="python",
        user="65532:65532",
        environment={"PYTHONPATH": _PACKAGES, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
        working_directory=_FUNCTIONS,
    )


def _dependencies() -> dict[str, Path]:
    """The files of the packages that gpuruntime needs, by their path in the image."""
    files: dict[str, Path] = {}
    for name, found in _closure({}, Requirement(_REQUIREMENT)).items():
        for path in found.files or ():
            inside = PurePosixPath(path)
            # Scripts are outside of the directory of packages.
            if name != "gpuruntime" and ".." not in inside.parts:
                files[f"{_PACKAGES}/{inside}"] = Path(str(path.locate()))
    return files


def _closure(found: dict[str, Distribution], wanted: Requirement) -> dict[str, Distribution]:
    """The distributions that a requirement needs, by name."""
    if wanted.name in found:
        return found
    found[wanted.name] = distribution(wanted.name)
    for text in found[wanted.name].requires or ():
        needed = Requirement(text)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in wanted.extras or {""}):
            _closure(found, needed)
    return found


def _libraries(packages: dict[str, Path]) -> Files:
    """The shared libraries of extension modules that the base image may lack."""
    extensions = [path for path in packages.values() if path.suffix == ".so"]
    found = shared_libraries(extensions).items()
    return {f"/usr/lib/{name}": File(path.resolve(), 0o755) for name, path in found if "/" not in name}
