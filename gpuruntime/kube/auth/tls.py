"""TLS contexts, made again when their files change."""

import asyncio
import logging
import ssl
import tempfile
from pathlib import Path

from attrs import evolve, field, frozen

from gpuruntime.kube.auth.credentials import CredentialsError

__all__ = ["Pem", "RotatingTLS", "Trust", "client_context"]

log = logging.getLogger(__name__)


@frozen
class Pem:
    """PEM text, inline or in a file that may be rotated; `place` names it in errors."""

    place: str
    content: bytes | Path = field(repr=False)

    def read(self) -> bytes:
        if isinstance(self.content, bytes):
            return self.content
        try:
            return self.content.read_bytes()
        except OSError as error:
            raise CredentialsError(f"{self.place}: cannot read {self.content}: {error.strerror}") from error


@frozen
class Trust:
    """How to verify a server; `ca` None means the CAs of the system."""

    ca: Pem | None = None
    verify: bool = True
    check_hostname: bool = True


def client_context(trust: Trust, certificate: Pem | None, key: Pem | None) -> ssl.SSLContext:
    """A TLS 1.2+ context that verifies servers by `trust` and presents the client certificate, if any.

    Raises:
        CredentialsError: a part cannot be read or is not PEM, or the key does not match the certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # As in Go: any certificate in the bundle is a trust anchor, even an intermediate. The CAs of clusters often lack
    # the key identifiers that the strict mode, the default since Python 3.13, requires.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = trust.verify and trust.check_hostname
    if not trust.verify:
        context.verify_mode = ssl.CERT_NONE
    elif trust.ca is None:
        context.load_default_certs()
    else:
        _load_authorities(context, trust.ca)
    if certificate is not None and key is not None:
        _load_pair(context, certificate, key)
    return context


def _load_authorities(context: ssl.SSLContext, ca: Pem) -> None:
    # Bundles may have comments in any language between the certificates; OpenSSL accepts ASCII only.
    text = ca.read().decode("ascii", "replace").replace("\ufffd", "?")
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(f"{ca.place}: expected PEM certificates, found none or a broken one") from error


def _load_pair(context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
    # OpenSSL reads key pairs from files only: these exist during this call, in a private directory (0700).
    both = f"{certificate.place} and {key.place}"
    contents = (certificate.read(), key.read())
    try:
        with tempfile.TemporaryDirectory(prefix="gpuruntime-") as directory:
            files = (Path(directory, "certificate.pem"), Path(directory, "key.pem"))
            for file, content in zip(files, contents, strict=True):
                file.write_bytes(content)
            # Without a password OpenSSL would prompt for one on the terminal.
            context.load_cert_chain(*files, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "something else"
        raise CredentialsError(f"{both}: expected a PEM certificate and its key, found {reason}") from error
    except OSError as error:
        raise CredentialsError(f"{both}: need a temporary directory to load from; set TMPDIR: {error}") from error


class RotatingTLS:
    """The TLS context of one server, made again when the content of its files changes.

    Files are read at most once in `interval` seconds. While they are invalid, such as a new certificate beside the old
    key during a rotation, the previous context stays in use.
    """

    def __init__(self, trust: Trust, *, interval: float = 5.0) -> None:
        self._trust = trust
        self._interval = interval
        self._current: tuple[tuple[Pem | None, ...], ssl.SSLContext] | None = None
        self._pair: tuple[Pem | None, Pem | None] = (None, None)
        self._fresh_until = float("-inf")

    def context(self, certificate: Pem | None, key: Pem | None) -> ssl.SSLContext:
        """The current context, the same object until something changes. Call it in a running loop.

        Raises:
            CredentialsError: there is no context for this certificate and key yet, and the files are invalid.
        """
        now = asyncio.get_running_loop().time()
        pair = (certificate, key)
        previous = self._current if pair == self._pair else None
        if previous is not None and now < self._fresh_until:
            return previous[1]
        try:
            self._current = current = self._made_of(tuple(_loaded(pem) for pem in (self._trust.ca, *pair)))
        except CredentialsError as error:
            if previous is None:
                raise
            log.warning("invalid TLS files, keeping the previous ones", extra={"error": str(error)})
            current = previous
        self._pair = pair
        self._fresh_until = now + self._interval
        return current[1]

    def recheck(self) -> None:
        """Read the files again at the next call."""
        self._fresh_until = float("-inf")

    def _made_of(self, parts: tuple[Pem | None, ...]) -> tuple[tuple[Pem | None, ...], ssl.SSLContext]:
        if self._current is not None and self._current[0] == parts:
            return self._current
        ca, certificate, key = parts
        return parts, client_context(evolve(self._trust, ca=ca), certificate, key)


def _loaded(pem: Pem | None) -> Pem | None:
    return None if pem is None else evolve(pem, content=pem.read())
