"""How a process reaches NATS. Files are named, not read: they are read at each connect, so new contents take effect."""

import ssl
from pathlib import Path
from typing import Final

from attrs import field, frozen

from gpuruntime.bus.credentials import BusCredentials

__all__ = ["BusOptions", "BusTls"]

_INBOX: Final = "_INBOX"


@frozen
class BusTls:
    """TLS, and nothing but TLS: a server that does not offer it gets no credentials.

    Without `ca_file` the authorities of the system are trusted. With `certificate_file` and `key_file` the client shows
    a certificate.
    """

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The context of a connection, from the present contents of the files.

        Raises:
            OSError: a file cannot be read, or has no certificate or key (ssl.SSLError is an OSError).
        """
        context = ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        if self.certificate_file is not None:
            context.load_cert_chain(self.certificate_file, self.key_file)
        return context


@frozen
class BusOptions:
    """The servers, each `nats://HOST:PORT`, of which any will do; the name that the server shows for the connection.

    All inboxes begin with `inbox_prefix`: with one for each user, permissions keep answers from the eyes of others.
    """

    servers: tuple[str, ...]
    name: str
    credentials: BusCredentials = field(factory=BusCredentials)
    tls: BusTls | None = None
    inbox_prefix: str = _INBOX
