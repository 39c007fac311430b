"""What `hack/generate` does: writes what is generated of manifests/ and docs/, or tells what of it is stale."""

import argparse
import sys
from contextlib import chdir
from pathlib import Path
from typing import Final

from gpuruntime.processes.command import main as gpuruntime
from hack.generators import metrics_page
from hack.generators.openapi import update

__all__ = ["OUTPUTS", "main"]

ROOT: Final = Path(__file__).resolve().parents[2]


def _roles(process: str, builder: str) -> tuple[str, ...]:
    account = ("--account", f"gpuruntime-{process}", "--namespace", "gpuruntime-system")
    return ("rbac", builder, *account, "--out", f"manifests/access/{process}/roles.yaml")


# One line an output: the arguments of `gpuruntime generate`. A process that gets an account of its own gets a line.
OUTPUTS: Final = (
    ("crds", "gpuruntime.api", "--out", "manifests/crds"),
    _roles("manager", "gpuruntime.processes.manager:build_manager"),
    _roles("controller-manager", "gpuruntime.processes.controller_manager:build_controller_manager"),
    _roles("runtime-api", "gpuruntime.processes.runtime_api:build_runtime_api"),
)


def main(argv: list[str]) -> int:
    """Write all outputs, or with --check only look at them: 1 if one is stale or cannot be made."""
    parser = argparse.ArgumentParser(
        prog="hack/generate",
        description="Write what is generated: definitions of our kinds, roles, OpenAPI of routes, tables of metrics.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    only_look = parser.parse_args(argv).check
    check = ["--check"] if only_look else []
    with chdir(ROOT):
        codes = [gpuruntime(["generate", *output, *check]) for output in OUTPUTS]
    return max(*codes, update(check=only_look), metrics_page.update(check=only_look))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
