"""Whether the namespaces are there that the product works in.

When a namespace goes, the roles in it go too. So the API server does not say that it is gone, but that this process may
not do anything there: only a look at the namespace itself tells.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from gpuruntime.control.leadership.fence import seconds_since_boot
from gpuruntime.kube import Client, NotFoundError, StatusError
from gpuruntime.kube.builtin.core import Namespace
from gpuruntime.service.errors import NamespaceGoneError

__all__ = ["NamespaceChecks"]

_BELIEVED_SECONDS: Final = 5.0


class NamespaceChecks:
    """Looks at namespaces, at most every five seconds as long as all of them are there.

    Guarantees: a caller waits for a look only if nobody else does, or if a namespace was gone at the last one.

    Caveats:
        Where this process may not look, a namespace is taken to be there.
    """

    def __init__(
        self, client: Client, namespaces: Sequence[str], *, clock: Callable[[], float] = seconds_since_boot
    ) -> None:
        self._client = client
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._clock = clock
        self._looking = asyncio.Lock()
        self._looked = float("-inf")
        self._gone: tuple[str, ...] = ()

    async def ensure(self, *, not_before: float | None = None) -> None:
        """Pass if all namespaces are there, by a look that began after `not_before`; else by one of the last seconds.

        Raises:
            NamespaceGoneError: one is not.
            UnavailableError: the API server does not answer.
        """
        oldest = self._clock() - (0.0 if self._gone else _BELIEVED_SECONDS) if not_before is None else not_before
        if self._looked < oldest and (self._gone or not_before is not None or not self._looking.locked()):
            async with self._looking:
                if self._looked < oldest:
                    began = self._clock()
                    self._gone = tuple(filter(None, await asyncio.gather(*map(self._fault, self._namespaces))))
                    self._looked = began
        if self._gone:
            raise NamespaceGoneError(
                f"{'; '.join(self._gone)}; create it and what belongs into it again (kubectl apply -k of the installed"
                " overlay), then send the request again with the same operationID"
            )

    def now(self) -> float:
        """The time by the clock that looks are measured with."""
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
