"""Credentials for no cluster: enough to build a manager and to look at it, not to run it."""

from typing import Final

from attrs import frozen

from gpuruntime.kube.credentials import Authorization, Credentials, CredentialsError, Endpoint

__all__ = ["NOWHERE"]


@frozen
class _Nowhere:
    endpoint: Endpoint

    async def authorize(self) -> Authorization:
        raise CredentialsError("these credentials are for no cluster: with them a manager can be built, not run")

    async def refused(self, used: Authorization) -> bool:  # noqa: ARG002 - nobody is let in, so nobody is refused
        return False


NOWHERE: Final[Credentials] = _Nowhere(Endpoint("https://nowhere.invalid"))
"""Builds a `Manager` without a cluster; every request with them fails."""
