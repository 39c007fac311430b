"""The number of a real node on this machine, and the names and addresses that follow from it."""

import socket
from collections.abc import Iterable
from typing import Self

from attrs import frozen

__all__ = ["Addresses", "NoFreeNumberError", "ReservedNumber"]

API_PORT = 6443
NUMBERS = range(1, 251)


class NoFreeNumberError(Exception):
    """All numbers are in use by other nodes of this machine."""


@frozen
class Addresses:
    """What node `number` uses outside of its namespaces. Two nodes with different numbers share nothing.

    All addresses are of 198.18.0.0/15, which is reserved for tests and routed nowhere.
    """

    number: int

    @property
    def link(self) -> str:
        """The machine's end of the pair of virtual links."""
        return f"gpurt{self.number}"

    @property
    def machine(self) -> str:
        """The machine's address on the link; the node's way to the API server."""
        return f"198.19.{self.number}.1"

    @property
    def node(self) -> str:
        """The node's address on the link, and the InternalIP of its Node object."""
        return f"198.19.{self.number}.2"

    @property
    def pods(self) -> str:
        """The addresses of the node's pods."""
        return f"198.18.{self.number}.0/24"

    @property
    def server(self) -> str:
        """The URL of the API server as the node and its pods reach it. Its certificate is valid for `localhost`."""
        return f"https://{self.machine}:{API_PORT}"

    @property
    def cgroup(self) -> str:
        """The cgroup above all pods of the node, the same in each hierarchy."""
        return f"/gpurt-{self.number}"


class ReservedNumber:
    """A number that no other node of this machine has until `close`, and until the last process that inherits it ends.

    The lock is a socket in the kernel's abstract namespace: it leaves no file, and the kernel frees it.
    """

    def __init__(self, number: int, lock: socket.socket) -> None:
        self.addresses = Addresses(number)
        self._lock = lock

    @classmethod
    def try_reserve(cls, number: int) -> Self | None:
        """Reserve one number; None if a process of this machine has it."""
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lock.bind(f"\0gpuruntime-node-{number}")
        except OSError:
            lock.close()
            return None
        return cls(number, lock)

    @classmethod
    def first_free(cls, numbers: Iterable[int] = NUMBERS) -> Self:
        """Reserve the first free number.

        Raises:
            NoFreeNumberError: there is none.
        """
        for number in numbers:
            reserved = cls.try_reserve(number)
            if reserved is not None:
                return reserved
        raise NoFreeNumberError("every number of a real node is in use on this machine: stop some of the nodes")

    @property
    def descriptor(self) -> int:
        """The file descriptor to pass on to processes that use the number."""
        return self._lock.fileno()

    def close(self) -> None:
        self._lock.close()
