"""The credentials of a process, which may start before its cluster does."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpuruntime.kube import (
    Authorization,
    Credentials,
    CredentialsError,
    Endpoint,
    KubeError,
    Request,
    Transport,
    from_kubeconfig,
    infer,
)
from gpuruntime.processes.errors import StartError

__all__ = ["LateCredentials", "cluster_credentials", "require_cluster"]

_NOT_YET: Final = Endpoint("https://no-cluster-yet.invalid")
_RETRY_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 10.0


class LateCredentials:
    """Credentials that are searched for until they are found, at most once a second.

    Guarantees:
        Until they are found, every request fails with the reason, and none leaves the process. Once found, they stay:
        the endpoint changes once, from none to that of the cluster, before the first request is sent.
    """

    def __init__(self, find: Callable[[], Credentials]) -> None:
        self._find = find
        self._found: Credentials | None = None
        self._failure: tuple[CredentialsError, float] | None = None

    @property
    def endpoint(self) -> Endpoint:
        return _NOT_YET if self._found is None else self._found.endpoint

    def resolve(self) -> Credentials:
        """The credentials.

        Raises:
            CredentialsError: there are none yet.
        """
        if self._found is None:
            self._found = self._find()
        return self._found

    async def authorize(self) -> Authorization:
        if self._found is None:
            self._retry()
        return await self.resolve().authorize()

    async def refused(self, used: Authorization) -> bool:
        return await self.resolve().refused(used)

    def _retry(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._failure is not None and now - self._failure[1] < _RETRY_SECONDS:
            # Many requests come at a time, and each search reads files.
            raise CredentialsError(str(self._failure[0])) from self._failure[0]
        try:
            self.resolve()
        except CredentialsError as error:
            self._failure = (error, now)
            raise


def cluster_credentials(kubeconfig: Path | None) -> LateCredentials:
    """The credentials of a kubeconfig; without one, those that `infer` finds."""
    return LateCredentials(infer if kubeconfig is None else lambda: from_kubeconfig(kubeconfig))


async def require_cluster(credentials: LateCredentials) -> None:
    """Check that the cluster answers.

    Raises:
        StartError: there are no credentials, or it does not answer.
    """
    try:
        found = credentials.resolve()
    except CredentialsError as error:
        raise StartError(str(error)) from error
    async with Transport(found, user_agent="gpuruntime") as transport:
        try:
            await transport.send(Request("GET", "/version", timeout=_ANSWER_SECONDS))
        except KubeError as error:
            raise StartError(
                f"the cluster at {found.endpoint.server} does not answer: {error}; start it, or set kubeMode: auto"
            ) from error
