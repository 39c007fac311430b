"""Checks that the namespaces of the product exist.

When a namespace is deleted, its Roles are deleted too. Then the API server answers 403 instead of 404, and only a read
of the namespace itself shows why.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from gpuruntime.aio import seconds_since_boot
from gpuruntime.kube import Client, NotFoundError, StatusError
from gpuruntime.kube.builtin.core import Namespace
from gpuruntime.service.errors import NamespaceGoneError

__all__ = ["NamespaceChecks"]

_VALID_SECONDS: Final = 5.0


class NamespaceChecks:
    """Checks namespaces, at most every five seconds while all of them exist.

    Guarantees: a caller waits for a check only if no other caller does, or if a namespace was missing at the last one.

    Caveats:
        A namespace that this process may not read counts as existing.
    """

    def __init__(
        self, client: Client, namespaces: Sequence[str], *, clock: Callable[[], float] = seconds_since_boot
    ) -> None:
        self._client = client
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._clock = clock
        self._checking = asyncio.Lock()
        self._checked_at = float("-inf")
        self._gone: tuple[str, ...] = ()

    async def ensure(self, *, not_before: float | None = None) -> None:
        """Return if all namespaces exist, by a check of the last five seconds, or one that started after `not_before`.

        Raises:
            NamespaceGoneError: one is missing or being deleted.
            UnavailableError: the API server is not available.
        """
        oldest = self._clock() - (0.0 if self._gone else _VALID_SECONDS) if not_before is None else not_before
        if self._checked_at < oldest and (self._gone or not_before is not None or not self._checking.locked()):
            async with self._checking:
                if self._checked_at < oldest:
                    began = self._clock()
                    self._gone = tuple(filter(None, await asyncio.gather(*map(self._fault, self._namespaces))))
                    self._checked_at = began
        if self._gone:
            raise NamespaceGoneError(
                f"{'; '.join(self._gone)}; create it and its objects again (kubectl apply -k of the installed"
                " overlay), then send the request again with the same operationID"
            )

    def now(self) -> float:
        """The current time, for `not_before`."""
        return self._clock()

    async def _fault(self, name: str) -> str:
        try:
            found = await self._client.get(Namespace, name)
        except NotFoundError:
            return f"namespace {name!r} does not exist: expected one for this installation"
        except StatusError:
            return ""
        is_going = found.metadata.deletion_timestamp is not None
        return f"namespace {name!r} is being deleted: expected one for this installation" if is_going else ""
