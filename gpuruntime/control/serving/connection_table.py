"""Who may connect: a pure table of connections, which of them are busy, and which one gives way to a new one."""

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["ConnectionTable", "TableFullError"]

C = TypeVar("C", bound=Hashable)


class TableFullError(Exception):
    """Every connection that could give way is busy; `reason` is "address" or "total"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ConnectionTable(Generic[C]):
    """At most `total` connections, and at most `per_address` of one address.

    Guarantees:
        A connection that serves a request never gives way. Otherwise the one that has waited longest does: of the same
        address if that has all it may have, else of the address that holds most. So idle connections lock
        no caller out, and an address that takes its whole share leaves the rest to others.
    """

    def __init__(self, total: int, per_address: int) -> None:
        self.total = total
        self.per_address = per_address
        self._addresses: dict[C, str] = {}
        self._counts: dict[str, int] = {}
        # By address, in the order in which they began to wait.
        self._waiting: dict[str, dict[C, None]] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def giving_way(self, address: str) -> C | None:
        """The connection that has to go before one of this address may be added; None if there is room.

        Raises:
            TableFullError: none can go.
        """
        if self._counts.get(address, 0) >= self.per_address:
            oldest = self._oldest(address)
            if oldest is None:
                raise TableFullError("address")
            return oldest
        return self.oldest_waiting() if len(self) >= self.total else None

    def oldest_waiting(self) -> C:
        """The connection that has waited longest, of the address that has most of all.

        Raises:
            TableFullError: all are busy.
        """
        largest = max(self._waiting, key=lambda address: self._counts[address], default=None)
        oldest = None if largest is None else self._oldest(largest)
        if oldest is None:
            raise TableFullError("total")
        return oldest

    def add(self, connection: C, address: str) -> None:
        """Note a new connection, which waits."""
        self._addresses[connection] = address
        self._counts[address] = self._counts.get(address, 0) + 1
        self._waiting.setdefault(address, {})[connection] = None

    def busy(self, connection: C) -> None:
        """Note that a connection serves a request."""
        address = self._addresses.get(connection)
        if address is not None:
            self._wait_no_more(connection, address)

    def waiting(self, connection: C) -> None:
        """Note that a connection has served a request, and waits from here on."""
        address = self._addresses.get(connection)
        if address is not None:
            self._wait_no_more(connection, address)
            self._waiting.setdefault(address, {})[connection] = None

    def remove(self, connection: C) -> None:
        """Forget a connection, however often that is said."""
        address = self._addresses.pop(connection, None)
        if address is None:
            return
        self._wait_no_more(connection, address)
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    def _oldest(self, address: str) -> C | None:
        return next(iter(self._waiting.get(address, ())), None)

    def _wait_no_more(self, connection: C, address: str) -> None:
        waiting = self._waiting.get(address, {})
        waiting.pop(connection, None)
        if not waiting:
            self._waiting.pop(address, None)
