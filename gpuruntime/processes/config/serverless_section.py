"""The section `serverless` of processes that need NATS and nothing else of it."""

from attrs import frozen

from gpuruntime.processes.config.keys import section
from gpuruntime.processes.config.nats_section import NatsSection

__all__ = ["ServerlessSection"]


@frozen
class ServerlessSection:
    """What invocations of functions need."""

    nats: NatsSection = section(NatsSection, "Without a URL there are no invocations. Files are read at each connect.")
