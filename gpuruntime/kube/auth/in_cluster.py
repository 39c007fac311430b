"""In-cluster credentials: the service account that the kubelet mounts into a pod."""

import os
from collections.abc import Mapping
from pathlib import Path

from gpuruntime.kube.auth.credentials import Credentials, CredentialsError, Endpoint
from gpuruntime.kube.auth.identity import TokenFile
from gpuruntime.kube.auth.rotating_credentials import RotatingCredentials
from gpuruntime.kube.auth.tls import Pem, Trust

__all__ = ["SERVICE_ACCOUNT", "in_cluster"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(directory: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ) -> Credentials:
    """Credentials of the pod that this process runs in. A rotated token or CA needs no restart.

    Raises:
        CredentialsError: the process is not in a pod, or the service account is not mounted.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise CredentialsError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    for name in ("token", "ca.crt"):
        if not (directory / name).is_file():
            raise CredentialsError(
                f"in a cluster without credentials: {directory / name} is missing; "
                "set automountServiceAccountToken: true on the pod or its service account"
            )
    ca = directory / "ca.crt"
    return RotatingCredentials(
        Endpoint(server=f"https://{_bracketed(host)}:{port}", namespace=_namespace(directory)),
        TokenFile(directory / "token"),
        Trust(ca=Pem(f"service account {ca}", ca)),
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _namespace(directory: Path) -> str:
    try:
        return (directory / "namespace").read_text("utf-8").strip() or "default"
    except FileNotFoundError:
        return "default"
