"""Which replica may write: leader election over a Lease, and a fence that closes before another replica can lead.

`Fence` and `FencedTransport` are public, for programs that fence writes by a lease of their own.
"""

from gpuruntime.control.leadership.fence import Fence
from gpuruntime.control.leadership.fenced_transport import FencedTransport

__all__ = ["Fence", "FencedTransport"]
