"""Installation of the product in a cluster, and credentials for its users."""

import base64
import json
from pathlib import Path
from typing import Any

from hack.dev.stack.clusters import Cluster

__all__ = ["SYSTEM_NAMESPACE", "account_kubeconfig", "account_token", "install"]

SYSTEM_NAMESPACE = "gpuruntime-system"
_MANIFESTS = Path(__file__).resolve().parents[3] / "manifests" / "overlays" / "local"
_LIFE = "8760h"


def install(cluster: Cluster) -> None:
    """Apply the manifests; idempotent."""
    cluster.kubectl("apply", "--kustomize", str(_MANIFESTS))


def account_token(cluster: Cluster, account: str, *audiences: str) -> str:
    """A token of one of our ServiceAccounts, valid for longer than a local stack runs.

    The API server accepts it, and so do the given audiences.
    """
    command = ("create", "token", account, "--namespace", SYSTEM_NAMESPACE, "--duration", _LIFE)
    token = cluster.kubectl(*command).strip()
    if not audiences:
        return token
    # Naming audiences replaces the default audience, which only a token reveals.
    flags = (f"--audience={audience}" for audience in (*_audiences(token), *audiences))
    return cluster.kubectl(*command, *flags).strip()


def _audiences(token: str) -> list[str]:
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return [str(audience) for audience in claims["aud"]]


def account_kubeconfig(cluster: Cluster, token: str) -> dict[str, Any]:
    """The administrator's kubeconfig with `token` as its user."""
    document: dict[str, Any] = json.loads(
        cluster.kubectl("config", "view", "--minify", "--flatten", "--raw", "--output", "json")
    )
    for user in document["users"]:
        user["user"] = {"token": token}
    for context in document["contexts"]:
        context["context"]["namespace"] = SYSTEM_NAMESPACE
    return document
