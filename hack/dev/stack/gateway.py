"""The access gateway of a stack whose node runs containers: as a pod, because only pods reach accessors."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.testing.images import ImageStore
from gpuruntime.testing.processes.supervised import ChildProcesses
from hack.dev.checkout_image import CHECKOUT_IMAGE, add_checkout_image
from hack.dev.stack.clusters import Cluster, StackError
from hack.dev.stack.install import SYSTEM_NAMESPACE

__all__ = ["Gateway", "install_gateway"]

_MANIFESTS: Final = Path(__file__).resolve().parents[3] / "manifests"
_NAME: Final = "gpuruntime-access-gateway"
_CALLER: Final = f"user:system:serviceaccount:{SYSTEM_NAMESPACE}:gpuruntime-developer=access"
_START_SECONDS: Final = 120


@frozen
class Gateway:
    """An installed gateway."""

    cluster: Cluster
    public_key: str

    @property
    def accessor_config(self) -> dict[str, Any]:
        """The section `accessor` of the manager's config."""
        return {"image": CHECKOUT_IMAGE, "publicKeys": [self.public_key]}

    def forward(self, children: ChildProcesses, directory: Path) -> str:
        """Wait until it is ready, and pass connections of this machine on to it; returns its URL."""
        rollout = ("rollout", "status", f"deployment/{_NAME}", "--namespace", SYSTEM_NAMESPACE)
        self.cluster.kubectl(*rollout, f"--timeout={_START_SECONDS}s")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        target = ("port-forward", f"deployment/{_NAME}", f"{port}:8090", "--namespace", SYSTEM_NAMESPACE)
        kubectl = (str(self.cluster.binaries / "kubectl"), "--kubeconfig", str(self.cluster.kubeconfig))
        log = directory / "access-forward.log"
        log.unlink(missing_ok=True)
        environment = {"KUBECACHEDIR": str(self.cluster.kubectl_cache)}
        children.start("access-forward", [*kubectl, *target], log, environment)
        return f"http://127.0.0.1:{port}"


def install_gateway(cluster: Cluster, images: Path, directory: Path) -> Gateway:
    """Install the gateway with a new key; returns before it is ready.

    Raises:
        StackError: a command failed.
    """
    add_checkout_image(ImageStore(images))
    key = directory / "access-key.pem"
    key.unlink(missing_ok=True)
    command = [sys.executable, "-m", "gpuruntime.processes.command", "access-key", "--file", str(key)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise StackError(f"gpuruntime access-key failed: {made.stderr.strip()}")
    secret = ("create", "secret", "generic", "gpuruntime-access-key", "--namespace", SYSTEM_NAMESPACE)
    cluster.kubectl(*secret, f"--from-file=key.pem={key}")
    cluster.kubectl("apply", "--kustomize", str(_overlay(directory / "access-gateway")))
    return Gateway(cluster, made.stdout.strip())


def _overlay(directory: Path) -> Path:
    """The manifests of the gateway, with our image, and a grant for the developer's account."""
    directory.mkdir(exist_ok=True)
    config = {
        "httpAddr": ":8090",
        "metricsBindAddress": ":8083",
        "signingKeyFile": "/etc/gpuruntime-signing-key/key.pem",
        "auth": {"tokenReview": True, "grants": [_CALLER]},
    }
    (directory / "config.yaml").write_text(json.dumps(config))
    generated = {
        "name": f"{_NAME}-config",
        "namespace": SYSTEM_NAMESPACE,
        "behavior": "merge",
        "files": ["config.yaml"],
    }
    document = {
        "resources": [os.path.relpath(_MANIFESTS / "access-gateway", directory)],
        "images": [{"name": "gpuruntime", "newTag": "dev"}],
        "configMapGenerator": [generated],
    }
    (directory / "kustomization.yaml").write_text(json.dumps(document))
    return directory
