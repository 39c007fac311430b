"""Volumes without data, for fake nodes, which mount nothing."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

__all__ = ["VolumesWithoutData"]


@frozen
class VolumesWithoutData:
    """A host path that does not exist for each volume: a pod of a real node that mounts it waits, and says so."""

    keeps_data: bool = False

    def create(self, volume: str) -> Mapping[str, Any]:
        return {"hostPath": {"path": f"/gpuruntime-volume-without-data/{volume}", "type": "Directory"}}

    def remove(self, volume: str) -> None:
        """Does nothing: there is no data."""
