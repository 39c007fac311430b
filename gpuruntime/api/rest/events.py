"""Data of the server-sent events of a watch, besides the views of its objects."""

from attrs import frozen

from gpuruntime.meta import Struct

__all__ = ["ResetView"]


@frozen
class ResetView(Struct):
    """Data of the events `reset` and `synced`: the version of the full state between them, and its size."""

    resource_version: str
    """The version of the state."""
    count: int
    """Number of objects."""
