"""What a reflector is given: what to copy, from where, to whom, and how patient to be."""

from typing import Protocol

from attrs import frozen

from gpuruntime.aio.backoff import BackoffSchedule
from gpuruntime.control.informers.shelf import Shelf
from gpuruntime.kube.errors import KubeError, NotFoundError
from gpuruntime.kube.watching import WatchEvent

__all__ = ["Collection", "ReflectorHealth", "ReflectorSettings", "Sink"]

# Every namespace can be listed, there or not: what is missing is the kind.
_NOT_SERVED = "the server does not serve this kind; is its CRD installed? kubectl apply it, and the watch finds it"


@frozen
class ReflectorSettings:
    """How patient a reflector is, and how it fetches a full state. The defaults suit real servers.

    A state is fetched in pages of about `page_bytes` bytes, and of `page_size` objects at most: small enough to be
    taken in beside other work, large enough that the requests cost little.

    `stream_lists` has it streamed instead, as the beginning of the watch (WatchList). A server encodes each object
    twice for that, so it takes almost twice as long; but it comes from the server's memory, where servers before 1.34
    read each page from etcd.
    """

    backoff: BackoffSchedule = BackoffSchedule(base=0.8, factor=2.0, cap=30.0, quiet=120.0)
    worthwhile_seconds: float = 5.0
    resume_seconds: float = 1.0
    idle_seconds: float = 85.0
    silent_start_seconds: float = 10.0
    page_size: int = 500
    page_bytes: int = 2 << 20
    stream_lists: bool = False
    list_seconds: float = 60.0
    watch_seconds: tuple[int, int] = (300, 600)
    slice_seconds: float = 0.003
    breaks_before_relist: int = 3


@frozen
class Collection:
    """What to keep a copy of: the path, the form to ask for, and the selectors."""

    path: str
    accept: str = "application/json"
    list_accept: str = "application/json"
    selectors: tuple[tuple[str, str], ...] = ()


class Sink(Protocol):
    """Where a reflector puts what it learns."""

    def draft(self) -> Shelf:
        """A shelf to collect a full state on."""

    async def replace(self, draft: Shelf, version: str) -> None:
        """The draft is the full state of the collection at this version."""

    async def take(self, event: WatchEvent) -> None:
        """An object was added, modified or deleted."""

    def reached(self, version: str) -> None:
        """Everything up to this version was told."""


class ReflectorHealth:
    """Plain figures about one reflector, for metrics and probes. An error counts until the server is heard of again."""

    def __init__(self) -> None:
        self.requests = 0
        self.relists: dict[str, int] = {}
        self.last_contact = float("-inf")
        self.last_error: KubeError | None = None

    @property
    def hint(self) -> str:
        """What to do about the last error, where that is known; else empty."""
        return _NOT_SERVED if isinstance(self.last_error, NotFoundError) else ""

    @property
    def trouble(self) -> str:
        """The last error, and what to do about it; empty if all is well."""
        error = "" if self.last_error is None else str(self.last_error)
        return f"{error} ({self.hint})" if self.hint else error
