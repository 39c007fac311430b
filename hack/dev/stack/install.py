"""Installing the product into a cluster, and identities for those who use it."""

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
    """Apply the manifests; a second time changes nothing."""
    cluster.kubectl("apply", "--kustomize", str(_MANIFESTS))


def account_token(cluster: Cluster, account: str, *audiences: str) -> str:
    """A token of a ServiceAccount of ours, for as long as anybody keeps a local stack up.

    The API server takes it, and so do those of `audiences`.
    """
    command = ("create", "token", account, "--namespace", SYSTEM_NAMESPACE, "--duration", _LIFE)
    token = cluster.kubectl(*command).strip()
    if not audiences:
        return token
    # Naming audiences replaces the usual one, which nothing but a token tells.
    flags = (f"--audience={audience}" for audience in (*_audiences(token), *audiences))
    return cluster.kubectl(*command, *flags).strip()


def _audiences(token: str) -> list[str]:
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return [str(audience) for audience in claims["aud"]]


def account_kubeconfig(cluster: Cluster, token: str) -> dict[str, Any]:
    """The administrator's kubeconfig with another user: whoever has `token`."""
    document: dict[str, Any] = json.loads(
        cluster.kubectl("config", "view", "--minify", "--flatten", "--raw", "--output", "json")
    )
    for user in document["users"]:
        user["user"] = {"token": token}
    for context in document["contexts"]:
        context["context"]["namespace"] = SYSTEM_NAMESPACE
    return document
