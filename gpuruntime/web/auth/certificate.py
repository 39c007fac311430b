"""TLS for the API: a certificate and its key from files, exchanged while the process runs."""

import logging
import ssl
from pathlib import Path

from attrs import frozen

from gpuruntime.web.auth.file_state import FileState, file_state

__all__ = ["CertificateError", "server_tls"]

_LOG = logging.getLogger(__name__)


class CertificateError(Exception):
    """The certificate or its key cannot be used; the message names the files."""


def server_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """A context to serve with, TLS 1.2 or newer. `certificate` has the whole chain, in PEM like the key.

    Guarantees:
        A connection is served with the files as they are when it begins. Files that are wrong after a change leave the
        certificate as it was, and an error in the log.

    Raises:
        CertificateError: the files cannot be used.
    """
    files = _Files(certificate, key)
    renewal = _Renewal(files)
    outer = _context(files)
    outer.sni_callback = renewal.choose
    return outer


@frozen
class _Files:
    certificate: Path
    key: Path

    def state(self) -> tuple[FileState, FileState]:
        return file_state(self.certificate), file_state(self.key)


class _Renewal:
    def __init__(self, files: _Files) -> None:
        self._files = files
        self._seen = files.state()
        self._current: ssl.SSLContext | None = None

    def choose(self, connection: ssl.SSLObject, _name: str | None, _outer: ssl.SSLContext) -> None:
        """OpenSSL asks this when a handshake begins, with or without the name of a server."""
        state = self._files.state()
        if state != self._seen:
            self._seen = state
            try:
                self._current = _context(self._files)
            except CertificateError as error:
                _LOG.error("certificate is wrong, it stays as it was", extra={"error": str(error)})
            else:
                _LOG.info("certificate read again", extra={"path": str(self._files.certificate)})
        if self._current is not None:
            connection.context = self._current


def _context(files: _Files) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # A key with a password would have OpenSSL ask for it at the terminal.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (OSError, ssl.SSLError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise CertificateError(
            f"certificate {files.certificate} with key {files.key}: expected a chain and its key in PEM: {reason}"
        ) from error
    return context
