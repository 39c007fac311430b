"""Credentials made of an endpoint, an identity source and a TLS context, both of which may be rotated."""

from collections.abc import Iterable
from ssl import SSLContext

from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.kube.auth.credentials import Authorization, Endpoint
from gpuruntime.kube.auth.identity import Identity, IdentitySource
from gpuruntime.kube.auth.tls import RotatingTLS, Trust

__all__ = ["RotatingCredentials"]


class RotatingCredentials:
    """Credentials that return the same Authorization until the identity or the TLS context changes.

    `headers` are sent with each request, besides Authorization. A plain http endpoint has no TLS context.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        source: IdentitySource,
        trust: Trust,
        headers: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.endpoint = endpoint
        self._source = source
        self._tls = RotatingTLS(trust) if endpoint.server.startswith("https://") else None
        self._headers = tuple(headers)
        self._current: tuple[Identity, Authorization] | None = None

    async def authorize(self) -> Authorization:
        """See `Credentials.authorize`."""
        identity = await self._source.current()
        # No await from here on, so that concurrent callers cannot alternate between two identities.
        context = self._tls.context(identity.certificate, identity.key) if self._tls else None
        if self._current is not None:
            known, authorization = self._current
            if known == identity and authorization.ssl is context:
                return authorization
        authorization = self._authorization(identity, context)
        self._current = (identity, authorization)
        return authorization

    async def refused(self, used: Authorization) -> bool:
        """See `Credentials.refused`."""
        if self._current is None or self._current[1] is not used:
            return True
        self._source.invalidate(self._current[0])
        if self._tls:
            self._tls.recheck()
        return await self.authorize() is not used

    def _authorization(self, identity: Identity, context: SSLContext | None) -> Authorization:
        headers = CIMultiDict(self._headers)
        if identity.authorization is not None:
            headers["Authorization"] = identity.authorization
        return Authorization(headers=CIMultiDictProxy(headers), ssl=context)
