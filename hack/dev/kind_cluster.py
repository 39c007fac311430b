"""`hack/kind`: the product in a kind cluster, as pods of an image that is built here."""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

__all__ = ["KindError", "main"]

ROOT: Final = Path(__file__).resolve().parents[2]
_OVERLAY: Final = "manifests/overlays/dev"
_IMAGE: Final = "gpuruntime:dev"
_SYSTEM: Final = "gpuruntime-system"
_NEEDED: Final = {
    "docker": "install Docker",
    "kind": "install kind (go install sigs.k8s.io/kind@latest)",
    "kubectl": "install kubectl",
}
_NEXT: Final = f"""
The product runs in kind cluster {{name}}.

  kubectl config use-context kind-{{name}}
  kubectl get pods -n {_SYSTEM}
  kubectl apply -f manifests/samples/gpuunit-minimal.yaml
  kubectl get gpuunits -A

The API, from here; in one terminal

  kubectl port-forward -n {_SYSTEM} service/gpuruntime-runtime-api 8080

and in another

  token=$(kubectl create token gpuruntime-developer -n {_SYSTEM} --audience gpuruntime)
  curl -H "Authorization: Bearer $token" http://127.0.0.1:8080/api/v1/gpu-units

After a change, run ./hack/kind again. ./hack/kind --delete deletes the cluster."""


class KindError(Exception):
    """A step failed; the message says what to do."""


@frozen
class KindCluster:
    """A kind cluster."""

    name: str

    def up(self) -> None:
        """Create the cluster if it does not exist, build and load the image, install, and wait; run again to update.

        Raises:
            KindError: a step failed.
        """
        if self.name not in _output("kind", "get", "clusters").split():
            _run("kind", "create", "cluster", "--name", self.name, "--wait", "120s")
        _run("docker", "build", "--tag", _IMAGE, ".")
        _run("kind", "load", "docker-image", _IMAGE, "--name", self.name)
        self._kubectl("apply", "--kustomize", _OVERLAY)
        for process in ("controller-manager", "runtime-api"):
            deployment = f"deployment/gpuruntime-{process}"
            # The tag of the image stays the same, so only a restart runs a new image.
            self._kubectl("rollout", "restart", deployment, "--namespace", _SYSTEM)
            self._kubectl("rollout", "status", deployment, "--namespace", _SYSTEM, "--timeout", "180s")
        print(_NEXT.format(name=self.name))

    def delete(self) -> None:
        _run("kind", "delete", "cluster", "--name", self.name)

    def _kubectl(self, *arguments: str) -> None:
        _run("kubectl", "--context", f"kind-{self.name}", *arguments)


def main(argv: Sequence[str]) -> int:
    """Run the command; a user error is one line on standard error and exit code 1."""
    parser = argparse.ArgumentParser(
        prog="hack/kind",
        description="Build the image and run the product with it in a kind cluster: the overlay dev, one pod a process."
        " Run again, it brings the cluster up to date. The nodes have no GPUs, so units with GPUs stay Pending."
        " `hack/up` needs no Docker, and has fake GPUs.",
    )
    parser.add_argument("--name", default="gpuruntime", help="name of the kind cluster (default: %(default)s)")
    parser.add_argument("--delete", action="store_true", help="delete the cluster")
    arguments = parser.parse_args(argv)
    cluster = KindCluster(arguments.name)
    try:
        _check_programs()
        if arguments.delete:
            cluster.delete()
        else:
            cluster.up()
    except KindError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _check_programs() -> None:
    for program, remedy in _NEEDED.items():
        if shutil.which(program) is None:
            raise KindError(f"hack/kind needs {program}, which is not on PATH: {remedy}; ./hack/up needs none of it")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        raise KindError("hack/kind needs a running Docker engine and `docker info` fails: start it, or use ./hack/up")


def _run(*command: str) -> None:
    print(f"+ {' '.join(command)}", flush=True)
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise KindError(f"`{' '.join(command)}` failed; see its output above")


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KindError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
