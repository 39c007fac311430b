"""`hack/generate`: write the generated files of manifests/ and docs/, or report which are stale."""

import argparse
import sys
from contextlib import chdir
from pathlib import Path
from typing import Final

from gpuruntime.processes.command import main as gpuruntime
from hack.benchmarks import charts
from hack.generators import metrics_page, openapi

__all__ = ["OUTPUTS", "main"]

ROOT: Final = Path(__file__).resolve().parents[2]


def _roles(process: str, builder: str) -> tuple[str, ...]:
    account = ("--account", f"gpuruntime-{process}", "--namespace", "gpuruntime-system")
    return ("rbac", builder, *account, "--out", f"manifests/access/{process}/roles.yaml")


# The arguments of `gpuruntime generate`, one line per output. A process with its own ServiceAccount needs a line.
OUTPUTS: Final = (
    ("crds", "gpuruntime.api", "--out", "manifests/crds"),
    _roles("manager", "gpuruntime.processes.manager:build_manager"),
    _roles("controller-manager", "gpuruntime.processes.controller_manager:build_controller_manager"),
    _roles("runtime-api", "gpuruntime.processes.runtime_api:build_runtime_api"),
    _roles("access-gateway", "gpuruntime.processes.access_gateway:build_access_gateway"),
    _roles("activator", "gpuruntime.processes.activator:build_activator"),
    _roles("result-store", "gpuruntime.processes.result_store:build_result_store"),
    ("nats-users", "--out", "manifests/nats/users.conf"),
)


def main(argv: list[str]) -> int:
    """Write all files, or only check them with --check; exit code 1 if one is stale or cannot be generated."""
    parser = argparse.ArgumentParser(
        prog="hack/generate",
        description="Write what is generated: definitions of our kinds, roles, OpenAPI of routes, tables of metrics,"
        " charts of benchmarks.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    only_look = parser.parse_args(argv).check
    check = ["--check"] if only_look else []
    with chdir(ROOT):
        codes = [gpuruntime(["generate", *output, *check]) for output in OUTPUTS]
    return max(*codes, *(update(check=only_look) for update in (openapi.update, metrics_page.update, charts.update)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
