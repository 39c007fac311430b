"""The sections of the access gateway."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from gpuruntime.control import HttpAddress
from gpuruntime.gateway.proxy.streams import StreamLimits
from gpuruntime.processes.config.keys import Fault, key, section
from gpuruntime.processes.config.notations import ADDRESS, FILE, count, duration

__all__ = ["SIGNING_KEY_FILE", "ManagerGateway", "StreamSettings"]

SIGNING_KEY_FILE: Final = (
    "private key that signs requests to accessors (PEM), made by `gpuruntime access-key`; reloaded on change"
)
"""What the key of the file with the private key means."""
_MOST_STREAMS: Final = 100_000


@frozen
class StreamSettings:
    """Limits of streams."""

    per_caller: int = key(count(1, _MOST_STREAMS), StreamLimits().per_caller, "maximum open streams of one caller")
    per_storage: int = key(count(1, _MOST_STREAMS), StreamLimits().per_storage, "maximum open streams of one storage")
    idle_timeout: float = key(
        duration(least=1.0), StreamLimits().idle_seconds, "time without bytes after which a stream is ended"
    )

    @property
    def limits(self) -> StreamLimits:
        return StreamLimits(self.per_caller, self.per_storage, self.idle_timeout)


@frozen
class ManagerGateway:
    """The access gateway in the process `manager`: off without an address, and with credentials of its own."""

    http_addr: HttpAddress | None = key(ADDRESS, None, "address of the access gateway; without it there is none")
    kubeconfig: Path | None = key(FILE, None, "kubeconfig of the account of the access gateway")
    signing_key_file: Path | None = key(FILE, None, SIGNING_KEY_FILE)
    streams: StreamSettings = section(StreamSettings)

    def faults(self) -> Iterator[Fault]:
        if self.http_addr is None:
            return
        if self.kubeconfig is None:
            yield Fault("httpAddr", "expected accessGateway.kubeconfig with it: the gateway has an account of its own")
        if self.signing_key_file is None:
            yield Fault("httpAddr", "expected accessGateway.signingKeyFile with it, made by `gpuruntime access-key`")
