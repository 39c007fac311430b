"""Credentials: the address of an API server, and what authenticates requests to it."""

from ssl import SSLContext
from typing import Protocol

from attrs import field, frozen
from multidict import CIMultiDictProxy

from gpuruntime.kube.errors import CredentialsError

__all__ = ["Authorization", "Credentials", "CredentialsError", "Endpoint"]


@frozen
class Endpoint:
    """The address of an API server; `server` has no trailing slash."""

    server: str
    namespace: str = "default"
    # A proxy URL may hold a password.
    proxy: str | None = field(default=None, repr=False)
    tls_server_name: str | None = None


@frozen(eq=False)
class Authorization:
    """The headers and the TLS context of one request.

    Objects are compared by identity: the same object means that nothing changed. `headers` is a multidict because
    Impersonate-Group repeats; a copy into a plain dict loses groups. `ssl` is None for plain http, and stays the
    same object when only a token changed, so that connections can be pooled by context.
    """

    headers: CIMultiDictProxy[str] = field(repr=False)
    ssl: SSLContext | None


class Credentials(Protocol):
    """Credentials for one API server, refreshed as needed.

    They never fall back to anonymous: what cannot be obtained raises CredentialsError.
    """

    @property
    def endpoint(self) -> Endpoint:
        """The address of the API server; it never changes."""

    async def authorize(self) -> Authorization:
        """The authorization of the next request. Files are read at most once in some seconds.

        Raises:
            CredentialsError: a file is unusable or a plugin failed.
        """

    async def refused(self, used: Authorization) -> bool:
        """Refresh after the server returned 401 to `used`; returns whether a retry can succeed.

        Concurrent calls for one authorization lead to one refresh.

        Raises:
            CredentialsError: the refresh failed.
        """
