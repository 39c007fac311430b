"""The overlays of manifests/ as stories install them in another cluster."""

import json
import os
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.host import REPLICAS
from e2e.names import SYSTEM

__all__ = ["OVERLAYS", "write_overlay"]

_MANIFESTS: Final = Path(__file__).resolve().parents[1] / "manifests"
OVERLAYS: Final = ("dev", "production")
"""The overlays that can be installed with the replicas that they declare."""
_CALLER: Final = f"user:system:serviceaccount:{SYSTEM}:gpuruntime-developer=operator"
_CONFIG: Final = "gpuruntime-runtime-api-config"
_CONTROLLER_CONFIG: Final = "gpuruntime-controller-manager-config"


def write_overlay(directory: Path, overlay: str | None) -> Path:
    """Write a new overlay to `directory`, and return it.

    Without a name it is `dev` with the number of replicas that stories need: scaling after `kubectl apply` would stop
    replicas of an existing installation and start others. Preparations of storages stay off the simulated GPU nodes, on
    which there are no volumes. `production` gets what its own comment leaves to the
    operator, a version and a caller; the kinds of Prometheus are left out, because most clusters do not have them.
    """
    directory.mkdir()

    def relative(path: str) -> str:
        return os.path.relpath(_MANIFESTS / path, directory.resolve())

    document: dict[str, Any] = {"resources": [relative(f"overlays/{overlay or 'dev'}")]}
    if overlay is None:
        document["replicas"] = [
            {"name": f"gpuruntime-{process}", "count": number} for process, number in REPLICAS.items()
        ]
        controllers = yaml.safe_load((_MANIFESTS / "controller-manager/config.yaml").read_text())
        (directory / "controllers.yaml").write_text(json.dumps({**controllers, "storage": {"tolerations": []}}))
        document["configMapGenerator"] = [_merged(_CONTROLLER_CONFIG, "controllers.yaml")]
    if overlay == "production":
        config = yaml.safe_load((_MANIFESTS / "overlays/production/runtime-api.yaml").read_text())
        config["auth"]["grants"] = [_CALLER]
        (directory / "config.yaml").write_text(json.dumps(config))
        document["resources"].append(relative("access/developer"))
        document["images"] = [{"name": "ghcr.io/lokiwager/gpuruntime", "newName": "gpuruntime", "newTag": "dev"}]
        document["configMapGenerator"] = [_merged(_CONFIG, "config.yaml")]
        deletion = {"$patch": "delete", "kind": "any", "metadata": {"name": "any"}}
        document["patches"] = [{"target": {"group": "monitoring.coreos.com"}, "patch": json.dumps(deletion)}]
    (directory / "kustomization.yaml").write_text(json.dumps(document))
    return directory


def _merged(name: str, file: str) -> dict[str, Any]:
    """The entry of a kustomization that replaces the config of a process."""
    return {"name": name, "namespace": SYSTEM, "behavior": "merge", "files": [f"config.yaml={file}"]}
