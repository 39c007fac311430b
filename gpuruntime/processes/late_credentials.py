"""Credentials that may not be there yet: for a process that starts before its cluster does."""

import asyncio
from collections.abc import Callable
from typing import Final

from gpuruntime.kube import Authorization, Credentials, CredentialsError, Endpoint

__all__ = ["LateCredentials"]

_NOT_YET: Final = Endpoint("https://no-cluster-yet.invalid")
_LOOK_SECONDS: Final = 1.0


class LateCredentials:
    """Looks for credentials until there are some, at most once a second, and then is those.

    Guarantees:
        While there are none, every request fails with why, and none leaves the process. Once there are some, they stay:
        the endpoint changes once, from none to that of the cluster, before the first request is let through.
    """

    def __init__(self, find: Callable[[], Credentials]) -> None:
        self._find = find
        self._found: Credentials | None = None
        self._failure: tuple[CredentialsError, float] | None = None

    @property
    def endpoint(self) -> Endpoint:
        return _NOT_YET if self._found is None else self._found.endpoint

    def look(self) -> Credentials:
        """The credentials.

        Raises:
            CredentialsError: there are none yet.
        """
        if self._found is None:
            self._found = self._find()
        return self._found

    async def authorize(self) -> Authorization:
        if self._found is None:
            self._look_again()
        return await self.look().authorize()

    async def refused(self, used: Authorization) -> bool:
        return await self.look().refused(used)

    def _look_again(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._failure is not None and now - self._failure[1] < _LOOK_SECONDS:
            # Many ask at a time, and looking means to read files.
            raise CredentialsError(str(self._failure[0])) from self._failure[0]
        try:
            self.look()
        except CredentialsError as error:
            self._failure = (error, now)
            raise
