"""The table of open connections: which are idle, and which one is evicted for a new one. Pure, without I/O."""

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["ConnectionTable", "TableFullError"]

C = TypeVar("C", bound=Hashable)


class TableFullError(Exception):
    """No connection can be evicted, because all are busy; `reason` is "address" or "total"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ConnectionTable(Generic[C]):
    """At most `total` connections, and at most `per_address` from one address.

    Guarantees:
        A connection that serves a request is never evicted. The one that has been idle longest is: of the same address
        if that is at its limit, else of the address with the most connections. So idle connections lock no client out,
        and an address at its limit leaves the rest to others.
    """

    def __init__(self, total: int, per_address: int) -> None:
        self.total = total
        self.per_address = per_address
        self._addresses: dict[C, str] = {}
        self._counts: dict[str, int] = {}
        # By address, in the order in which they became idle.
        self._idle: dict[str, dict[C, None]] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def to_evict(self, address: str) -> C | None:
        """The connection to evict before one from this address is added; None if there is room.

        Raises:
            TableFullError: no connection can be evicted.
        """
        if self._counts.get(address, 0) >= self.per_address:
            oldest = self._oldest(address)
            if oldest is None:
                raise TableFullError("address")
            return oldest
        return self.longest_idle() if len(self) >= self.total else None

    def longest_idle(self) -> C:
        """The connection that has been idle longest, of the address with the most connections.

        Raises:
            TableFullError: all connections are busy.
        """
        largest = max(self._idle, key=lambda address: self._counts[address], default=None)
        oldest = None if largest is None else self._oldest(largest)
        if oldest is None:
            raise TableFullError("total")
        return oldest

    def add(self, connection: C, address: str) -> None:
        """Add a new connection, idle at first."""
        self._addresses[connection] = address
        self._counts[address] = self._counts.get(address, 0) + 1
        self._idle.setdefault(address, {})[connection] = None

    def set_busy(self, connection: C) -> None:
        """Mark a connection as serving a request."""
        address = self._addresses.get(connection)
        if address is not None:
            self._not_idle(connection, address)

    def set_idle(self, connection: C) -> None:
        """Mark a connection as idle from now on."""
        address = self._addresses.get(connection)
        if address is not None:
            self._not_idle(connection, address)
            self._idle.setdefault(address, {})[connection] = None

    def remove(self, connection: C) -> None:
        """Remove a connection, if it is still there."""
        address = self._addresses.pop(connection, None)
        if address is None:
            return
        self._not_idle(connection, address)
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    def _oldest(self, address: str) -> C | None:
        return next(iter(self._idle.get(address, ())), None)

    def _not_idle(self, connection: C, address: str) -> None:
        idle = self._idle.get(address, {})
        idle.pop(connection, None)
        if not idle:
            self._idle.pop(address, None)
