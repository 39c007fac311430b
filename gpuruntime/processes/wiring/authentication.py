"""The authentication of callers, as the config of a server says."""

import ssl
from typing import Final

from gpuruntime.control import HttpAddress
from gpuruntime.endpoints.auth.access_control import Access, AccessControl, UnguardedAddressError, decide_access
from gpuruntime.endpoints.auth.certificate import CertificateError, server_tls
from gpuruntime.endpoints.auth.scopes import Authenticator, parse_grants
from gpuruntime.endpoints.auth.token_file import TokenFile, TokenFileError
from gpuruntime.endpoints.auth.token_review import AUDIENCE, TokenReviews
from gpuruntime.kube import Client
from gpuruntime.processes.config.api_sections import Auth, Tls
from gpuruntime.processes.errors import StartError

__all__ = ["guarded"]

_EVERY_USER: Final = parse_grants("group:system:authenticated=operator+access")


def guarded(
    address: HttpAddress, auth: Auth, tls: Tls, client: Client | None, audience: str = AUDIENCE
) -> tuple[AccessControl, ssl.SSLContext | None]:
    """The access control of a server on an address, and its TLS. `client` reviews tokens; None without a cluster.

    Tokens of the cluster need the audience.

    Raises:
        StartError: the token file or the certificate is invalid, or the address would be open to other machines.
    """
    try:
        return _access_control(address, auth, client, audience), None if tls.files is None else server_tls(*tls.files)
    except (TokenFileError, CertificateError, UnguardedAddressError) as error:
        raise StartError(str(error)) from error


def _access_control(address: HttpAddress, auth: Auth, client: Client | None, audience: str) -> AccessControl:
    known = list[Authenticator]()
    if auth.token_file is not None:
        known.append(TokenFile(auth.token_file))
    if auth.token_review and client is not None:
        known.append(TokenReviews(client, parse_grants(*auth.grants), audience))
    access = decide_access(address, authenticated=bool(known), allow_unauthenticated=auth.allow_unauthenticated)
    if access is Access.DEVELOPMENT and client is not None:
        # Callers without credentials have every scope; so have those with a token of the cluster.
        known.append(TokenReviews(client, _EVERY_USER, audience))
    return AccessControl(access, *known)
