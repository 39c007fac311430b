"""Credentials without a cluster: enough to build a manager and to inspect it, not to run it."""

from typing import Final

from attrs import frozen

from gpuruntime.kube.auth.credentials import Authorization, Credentials, Endpoint
from gpuruntime.kube.errors import CredentialsError

__all__ = ["OFFLINE_CREDENTIALS"]


@frozen
class _Offline:
    endpoint: Endpoint

    async def authorize(self) -> Authorization:
        raise CredentialsError(
            "offline credentials have no cluster: with them a manager can be built and inspected, not run"
        )

    async def refused(self, used: Authorization) -> bool:  # noqa: ARG002 - no request is ever sent
        return False


OFFLINE_CREDENTIALS: Final[Credentials] = _Offline(Endpoint("https://offline.invalid"))
"""Builds a `Manager` without a cluster; every request with them fails."""
