"""The printer columns that all kinds with a Ready condition have."""

from typing import Final

from gpuruntime.meta import Column

__all__ = ["READY_MESSAGE", "READY_REASON"]

READY_REASON: Final = Column(
    "Reason", '.status.conditions[?(@.type=="Ready")].reason', description="Reason of the phase"
)
READY_MESSAGE: Final = Column(
    "Message",
    '.status.conditions[?(@.type=="Ready")].message',
    priority=1,
    description="Message of the Ready condition",
)
