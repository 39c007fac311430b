"""What `hack/generate` does: writes what is generated of manifests/ and docs/, or tells what of it is stale."""

import argparse
import sys
from contextlib import chdir
from pathlib import Path
from typing import Final

from gpuruntime.processes.command import main as gpuruntime
from hack.openapi import update

__all__ = ["OUTPUTS", "main"]

ROOT: Final = Path(__file__).resolve().parent.parent
# One line an output: the arguments of `gpuruntime generate`. A process that gets an account of its own gets a line.
OUTPUTS: Final = (
    ("crds", "gpuruntime.api", "--out", "manifests/crds"),
    (
        *("rbac", "gpuruntime.processes.product:build_product"),
        *("--account", "gpuruntime-manager", "--namespace", "gpuruntime-system"),
        *("--out", "manifests/rbac/manager.yaml"),
    ),
)


def main(argv: list[str]) -> int:
    """Write all outputs, or with --check only look at them: 1 if one is stale or cannot be made."""
    parser = argparse.ArgumentParser(
        prog="hack/generate",
        description="Write what is generated: definitions of our kinds, roles of our processes, OpenAPI of our routes.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    only_look = parser.parse_args(argv).check
    check = ["--check"] if only_look else []
    with chdir(ROOT):
        codes = [gpuruntime(["generate", *output, *check]) for output in OUTPUTS]
    return max(*codes, update(check=only_look))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
