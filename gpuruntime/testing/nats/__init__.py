"""A real NATS server on this machine, as the product needs it: JetStream on disk, synced always, users by process.

The fixture `nats_server` starts one for a test.
"""

from gpuruntime.testing.nats.configuration import ADMIN, NatsFiles
from gpuruntime.testing.nats.server import NatsError, NatsServer

__all__ = ["ADMIN", "NatsError", "NatsFiles", "NatsServer"]
