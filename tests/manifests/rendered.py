"""The manifests as kustomize renders them."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import frozen

from gpuruntime.testing import assets

__all__ = ["FUNCTIONS", "MANIFESTS", "OVERLAYS", "WORKLOADS", "Rendered", "rendered"]

MANIFESTS: Final = Path(__file__).resolve().parents[2] / "manifests"
OVERLAYS: Final = ("local", "dev", "production")
WORKLOADS: Final = ("dev", "production")
"""The overlays that contain processes."""
FUNCTIONS: Final = Path(__file__).resolve().parent / "overlays" / "functions"
"""An overlay with all components."""


@frozen
class Rendered:
    """All objects of an overlay."""

    objects: tuple[dict[str, Any], ...]

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [item for item in self.objects if item["kind"] in kinds]

    def named(self, kind: str, name: str) -> dict[str, Any]:
        (found,) = (item for item in self.of(kind) if item["metadata"]["name"] == name)
        return found

    def pods(self, namespace: str, labels: dict[str, str]) -> list[dict[str, Any]]:
        """The pod templates in a namespace that have all these labels."""
        templates = [
            item["spec"]["template"]
            for item in self.of("Deployment", "StatefulSet")
            if item["metadata"]["namespace"] == namespace
        ]
        return [template for template in templates if labels.items() <= template["metadata"]["labels"].items()]

    def config(self, process: str) -> str:
        """The config file that is mounted into the pods of a process."""
        deployment = self.named("Deployment", f"gpuruntime-{process}")
        return self.mounted_config(deployment["spec"]["template"])["config.yaml"]

    def mounted_config(self, template: dict[str, Any]) -> dict[str, str]:
        """The files of the ConfigMap that is the volume `config` of a pod."""
        (volume,) = (v for v in template["spec"]["volumes"] if v["name"] == "config")
        found: dict[str, str] = self.named("ConfigMap", volume["configMap"]["name"])["data"]
        return found


@cache
def rendered(directory: Path) -> Rendered:
    """The objects that `kubectl apply -k` of a directory would install."""
    command = [str(assets.ensure() / "kubectl"), "kustomize", str(directory)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Rendered(tuple(yaml.safe_load_all(text)))
