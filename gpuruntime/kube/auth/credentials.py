"""What a transport must know to reach an API server and to be let in, and the promise of those who provide it."""

from ssl import SSLContext
from typing import Protocol

from attrs import field, frozen
from multidict import CIMultiDictProxy

from gpuruntime.kube.errors import CredentialsError

__all__ = ["Authorization", "Credentials", "CredentialsError", "Endpoint"]


@frozen
class Endpoint:
    """Where the API server is; `server` has no trailing slash."""

    server: str
    namespace: str = "default"
    # The address of a proxy may hold a password.
    proxy: str | None = field(default=None, repr=False)
    tls_server_name: str | None = None


@frozen(eq=False)
class Authorization:
    """What one request carries.

    An object is compared by identity: the same object means that nothing changed. `headers` is a multidict because
    Impersonate-Group repeats; a copy into a plain dict loses groups. `ssl` is None for plain http, and stays the
    same object when only a token changed, so that a pool of connections can be kept for each context.
    """

    headers: CIMultiDictProxy[str] = field(repr=False)
    ssl: SSLContext | None


class Credentials(Protocol):
    """Who we are to one API server, kept fresh.

    Credentials are never silently anonymous: what cannot be obtained raises CredentialsError.
    """

    @property
    def endpoint(self) -> Endpoint:
        """Where to send requests; it never changes."""

    async def authorize(self) -> Authorization:
        """Call it before each request. Without a change it costs no I/O more than once in some seconds.

        Raises:
            CredentialsError: a file is unusable or a plugin failed.
        """

    async def refused(self, used: Authorization) -> bool:
        """Tell that the server answered 401 to `used`; true if it is worth trying once more.

        Any number of concurrent refusals of one authorization lead to one refresh.

        Raises:
            CredentialsError: the refresh failed.
        """
