"""The binaries of the control plane, a real node and NATS: found, or built once per user from pinned Go modules."""

from gpuruntime.testing.assets.binary_sets import CONTROL_PLANE, NATS, NODE, BinarySet
from gpuruntime.testing.assets.build import BuildError
from gpuruntime.testing.assets.go_toolchain import ToolchainError
from gpuruntime.testing.assets.lookup import cache_directory, ensure, locate, missing

__all__ = [
    "CONTROL_PLANE",
    "NATS",
    "NODE",
    "BinarySet",
    "BuildError",
    "ToolchainError",
    "cache_directory",
    "ensure",
    "locate",
    "missing",
]
