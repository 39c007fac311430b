"""`hack/e2e`: run the user stories of e2e/, all or some, locally or against another cluster."""

import argparse
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from e2e.overlays import OVERLAYS
from gpuruntime.testing import ClusterError
from gpuruntime.testing.node.requirements import RealNodeUnavailableError
from hack.dev.product_image import ImageBuildError
from hack.dev.real_node_cluster import story_cluster

__all__ = ["main"]

ROOT: Final = Path(__file__).resolve().parents[2]
FILES: Final = {path.stem.removeprefix("test_"): path for path in sorted((ROOT / "e2e").rglob("test_*.py"))}
ASSETS: Final = [sys.executable, "-m", "gpuruntime.testing", "assets"]
PYTEST: Final = [sys.executable, "-m", "pytest", "--durations=5"]


def main(argv: list[str]) -> int:
    """Run the stories; returns the exit code of pytest, or 1 with one line on standard error if there is nothing to
    run.
    """
    arguments = _parser().parse_args(argv)
    if arguments.list:
        for name, path in FILES.items():
            print(f"{name:24} {_first_line(path)}")
        return 0
    problem = _problem(arguments)
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    kubeconfig: Path | None = arguments.kubeconfig
    environment = dict(os.environ)
    is_local = kubeconfig is None and not arguments.real_node
    if is_local:
        # Two stories run at a time and share one installation.
        chosen = [str(FILES[name]) for name in arguments.stories] or ["e2e"]
        flags = ["--numprocesses", "auto"]
    else:
        chosen = [str(FILES[name]) for name in arguments.stories] or ["e2e/stories"]
        flags = ["--numprocesses", "0"]
    if kubeconfig is not None:
        environment["E2E_KUBECONFIG"] = str(kubeconfig.resolve())
    if arguments.overlay is not None:
        environment["E2E_OVERLAY"] = arguments.overlay
    marks = ["-m", "soak or not soak"] if arguments.soak else []
    if subprocess.run(ASSETS, cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        return 1
    command = [*PYTEST, *flags, *marks, *chosen]
    try:
        with story_cluster() if arguments.real_node else nullcontext() as cluster:
            found = cluster.environment() if cluster is not None else {}
            return subprocess.run(command, cwd=ROOT, env={**environment, **found}, check=False).returncode
    except (ClusterError, RealNodeUnavailableError, ImageBuildError) as error:
        print(f"error: {error}", file=sys.stderr)
    return 1


def _problem(arguments: argparse.Namespace) -> str:
    """Why nothing can be run, "" if something can."""
    unknown = [name for name in arguments.stories if name not in FILES]
    if unknown:
        return f"there is no story {unknown[0]}: `hack/e2e --list` names all"
    if arguments.kubeconfig is not None and not arguments.kubeconfig.is_file():
        return f"--kubeconfig {arguments.kubeconfig}: there is no such file"
    if arguments.overlay is not None and arguments.kubeconfig is None and not arguments.real_node:
        return "--overlay needs --real-node or --kubeconfig: locally no pods are installed"
    return ""


def _first_line(path: Path) -> str:
    return path.read_text().split("\n", 1)[0].strip('"')


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hack/e2e",
        description="Run the user stories of e2e/: black-box tests of the installed product, over HTTP and with the"
        " official Kubernetes client. Without --kubeconfig each run has a control plane of its own on this machine; the"
        " processes of the product run beside it under tokens of their own accounts, behind a load balancer.",
        epilog="Examples: `hack/e2e` runs all; `hack/e2e claim failover` two of them; `hack/kind` and then"
        " `hack/e2e --kubeconfig FILE` runs them against pods in a kind cluster; `hack/e2e --real-node` runs them"
        " against pods on this machine.",
    )
    parser.add_argument("stories", nargs="*", metavar="STORY", help="run these alone; --list names them")
    parser.add_argument("--list", action="store_true", help="name all stories, and run none")
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        "--real-node",
        action="store_true",
        help="build the image without Docker, install it on a real node of a new local cluster, and run the stories of"
        " e2e/stories there, one after the other; those that need a cluster of their own or another image are skipped."
        " Needs root. Nothing stays.",
    )
    target.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="install the product into this cluster (manifests/overlays/dev, whose image it must have) and run the"
        " stories of e2e/stories there, one after the other; those that need a cluster of their own, the audit log or"
        " another image are skipped. What was installed stays.",
    )
    parser.add_argument(
        "--overlay",
        choices=OVERLAYS,
        help="install this overlay with the replicas that it declares, to see how it behaves; without it, the stories"
        " run on manifests/overlays/dev with two controller managers and three APIs",
    )
    parser.add_argument("--soak", action="store_true", help="run the long variants, too")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
