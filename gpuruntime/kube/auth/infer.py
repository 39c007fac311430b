"""Inference of the credentials of this process, as kubectl and kube-rs do it."""

import os
from collections.abc import Mapping
from pathlib import Path

from gpuruntime.kube.auth.credentials import Credentials, CredentialsError
from gpuruntime.kube.auth.in_cluster import SERVICE_ACCOUNT, in_cluster
from gpuruntime.kube.auth.kubeconfig.contexts import default_files, from_kubeconfig

__all__ = ["infer"]


def infer(environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> Credentials:
    """The credentials of this process: from KUBECONFIG if it is set, else from ~/.kube/config, else in-cluster.

    Raises:
        CredentialsError: there are none, or the first ones found are invalid; there is no anonymous fallback.
    """
    files = default_files(environ)
    if environ.get("KUBECONFIG") or any(map(_exists, files)):
        return from_kubeconfig(environ=environ)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(service_account, environ)
    tried = ", ".join(f"{file} does not exist" for file in files) or "HOME is not set"
    raise CredentialsError(
        f"no credentials: KUBECONFIG is not set, {tried}, and KUBERNETES_SERVICE_HOST is not set; "
        "set KUBECONFIG or run in a cluster"
    )


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except PermissionError:
        # In a container, HOME is often the directory of another user.
        return False
