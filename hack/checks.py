"""The checks of this repository: `hack/test`, `hack/soak`, `hack/coverage`, tox and CI run them."""

import os
import subprocess
import sys
import time
from pathlib import Path

from gpuruntime.testing import RealNodeUnavailableError, require_real_node

ROOT = Path(__file__).resolve().parent.parent
RUFF = [sys.executable, "-m", "ruff"]
PYTEST = [sys.executable, "-m", "pytest"]
# Builds what is missing: a build inside a test would run into the time limit of the test.
ASSETS = [sys.executable, "-m", "gpuruntime.testing", "assets"]
# More workers than cores, because tests often wait. A worker that is done takes tests over from others.
PARALLEL = ["--numprocesses", str(max(2, (os.cpu_count() or 1) * 3 // 2)), "--dist", "worksteal"]
# The end of a run: the slowest tests, the failures, then what was skipped and why.
SUMMARY = ["--durations=10", "--durations-min=1", "-rfExX", "-p", "hack.skipped_tests"]
COVERAGE = ".gpuruntime/coverage/report.json"


def main(argv: list[str]) -> int:
    """Run one check, or all of them with `test` and no further arguments; stops at the first failure."""
    name, *rest = argv
    if name == "test" and not rest:
        steps = ["lint", "types", "imports", "tests"]
    else:
        steps = ["tests" if name == "test" else name]
    for step in steps:
        began = time.monotonic()
        print(f"== {step}", flush=True)
        for command in commands(step, rest):
            code = subprocess.run(command, cwd=ROOT, check=False).returncode
            if code != 0:
                print(f"== {step} failed (exit code {code}): {' '.join(command)}", file=sys.stderr)
                return code
        print(f"== {step}: ok, {time.monotonic() - began:.0f} s", flush=True)
    return 0


def commands(step: str, rest: list[str]) -> list[list[str]]:
    """The command lines of a check; `rest` are arguments for pytest."""
    return {
        "lint": [
            [*RUFF, "check", "--config", "hack/ruff.toml", "."],
            [*RUFF, "format", "--config", "hack/ruff.toml", "--check", "."],
        ],
        "types": [[sys.executable, "-m", "mypy", "--config-file", "setup.cfg"]],
        "imports": [[str(Path(sys.executable).parent / "lint-imports"), "--config", "setup.cfg"]],
        "tests": [*assets(), [*PYTEST, *SUMMARY, *(rest or PARALLEL)]],
        "soak": [*assets(), [*PYTEST, *SUMMARY, "-m", "soak", *rest]],
        "coverage": [
            *assets(),
            [*PYTEST, *SUMMARY, "--cov", "--cov-config=tox.ini", f"--cov-report=json:{COVERAGE}", *(rest or PARALLEL)],
            [sys.executable, "-m", "hack.line_coverage", COVERAGE],
        ],
    }[step]


def assets() -> list[list[str]]:
    """The command lines that build the binaries: of a real node only where one can run."""
    everywhere = [ASSETS, [*ASSETS, "--nats"]]
    try:
        require_real_node()
    except RealNodeUnavailableError:
        return everywhere
    return [*everywhere, [*ASSETS, "--node"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
