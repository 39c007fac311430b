"""The section `serverless` of a process that reconciles and uses NATS."""

from attrs import frozen

from gpuruntime.processes.config.serverless_section import ServerlessSection
from gpuruntime.processes.config.sidecar_keys import SidecarKeys

__all__ = ["ManagerServerless"]


@frozen
class ManagerServerless(ServerlessSection, SidecarKeys):
    """What invocations of functions need, and what workers need."""
