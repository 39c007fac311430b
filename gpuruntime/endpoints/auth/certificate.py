"""TLS for the API: certificate and key from files, reloaded when the files change."""

import logging
import ssl
from pathlib import Path

from attrs import frozen

from gpuruntime.endpoints.auth.file_state import FileState, file_state

__all__ = ["CertificateError", "server_tls"]

_LOG = logging.getLogger(__name__)


class CertificateError(Exception):
    """The certificate or its key is invalid; the message names the files."""


def server_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """A server context for TLS 1.2 or newer. `certificate` is the whole chain, in PEM like the key.

    Guarantees:
        Each handshake uses the files as they are at that time. If changed files are invalid, the last valid certificate
        stays in use, and an error is logged.

    Raises:
        CertificateError: the files are invalid.
    """
    files = _Files(certificate, key)
    reloader = _Reloader(files)
    outer = _context(files)
    outer.sni_callback = reloader.choose
    return outer


@frozen
class _Files:
    certificate: Path
    key: Path

    def state(self) -> tuple[FileState, FileState]:
        return file_state(self.certificate), file_state(self.key)


class _Reloader:
    def __init__(self, files: _Files) -> None:
        self._files = files
        self._seen = files.state()
        self._current: ssl.SSLContext | None = None

    def choose(self, connection: ssl.SSLObject, _name: str | None, _outer: ssl.SSLContext) -> None:
        """OpenSSL calls this at the start of each handshake, with or without SNI."""
        state = self._files.state()
        if state != self._seen:
            self._seen = state
            try:
                self._current = _context(self._files)
            except CertificateError as error:
                _LOG.error("invalid certificate, keeping the last valid one", extra={"error": str(error)})
            else:
                _LOG.info("certificate reloaded", extra={"path": str(self._files.certificate)})
        if self._current is not None:
            connection.context = self._current


def _context(files: _Files) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a password OpenSSL would prompt for one at the terminal if the key is encrypted.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (OSError, ssl.SSLError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise CertificateError(
            f"certificate {files.certificate} with key {files.key}: expected a chain and its key in PEM: {reason}"
        ) from error
    return context
