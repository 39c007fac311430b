"""Volumes as directories of a node."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

__all__ = ["HOST_PATH_CLASS", "HOST_PATH_PROVISIONER", "HostPathVolumes"]

HOST_PATH_CLASS: Final = "host-path"
HOST_PATH_PROVISIONER: Final = "host-path.testing.gpuruntime.local"


@frozen
class HostPathVolumes:
    """A directory for each volume, below one directory of the node. Requested sizes are not enforced."""

    directory: Path
    keeps_data: bool = True

    def create(self, volume: str) -> Mapping[str, Any]:
        path = self.directory / volume
        path.mkdir(parents=True, exist_ok=True)
        # Pods with any user write to it: Kubernetes does not change the owner of a host path.
        path.chmod(0o777)
        return {"hostPath": {"path": str(path), "type": "Directory"}}

    def remove(self, volume: str) -> None:
        path = self.directory / volume
        if path.exists():
            shutil.rmtree(path)
