"""The section `serverless.nats`: how a process reaches NATS."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from gpuruntime.bus import BusCredentials, BusOptions, BusTls
from gpuruntime.processes.config.keys import Fault, key, keys
from gpuruntime.processes.config.notations import FILE, Notation

__all__ = ["NatsSection"]

_DEFAULT_PORT: Final = 4222


def _server(text: str) -> str:
    url = urlsplit(text)
    # Reading the port checks it. Credentials are in files: a URL is logged.
    if url.scheme not in {"nats", "tls"} or not url.hostname or url.username or url.path or url.query or url.fragment:
        raise ValueError(text)
    return f"{url.scheme}://{url.netloc}" if url.port is not None else f"{url.scheme}://{url.netloc}:{_DEFAULT_PORT}"


_SERVER: Final = Notation(
    "the URL of a NATS server without credentials, such as nats://nats:4222 or tls://nats:4222",
    _server,
    str,
    metavar="URL",
)


@frozen
class NatsSection:
    """NATS: without a URL there are no invocations, and everything else works. All files are read at each connect."""

    urls: tuple[str, ...] = keys(_SERVER, (), "URL of a NATS server, of which any will do; tls:// requires TLS")
    user_file: Path | None = key(FILE, None, "file with the name of the user; with nats.passwordFile")
    password_file: Path | None = key(FILE, None, "file with the password of the user")
    token_file: Path | None = key(FILE, None, "file with a token, instead of a user")
    credentials_file: Path | None = key(FILE, None, "credentials file with a JWT and an nkey, instead of a user")
    ca_file: Path | None = key(FILE, None, "authorities of the servers' certificates (PEM); requires TLS")
    cert_file: Path | None = key(FILE, None, "certificate that the client shows (PEM); requires TLS")
    key_file: Path | None = key(FILE, None, "private key of that certificate (PEM)")

    def options(self, name: str, inbox_prefix: str) -> BusOptions | None:
        """The options of a connection that servers show under `name`; None if NATS is not configured."""
        if not self.urls:
            return None
        has_files = self.ca_file is not None or self.cert_file is not None
        is_encrypted = has_files or any(url.startswith("tls:") for url in self.urls)
        return BusOptions(
            self.urls,
            name,
            BusCredentials(self.user_file, self.password_file, self.token_file, self.credentials_file),
            BusTls(self.ca_file, self.cert_file, self.key_file) if is_encrypted else None,
            inbox_prefix,
        )

    def faults(self) -> Iterator[Fault]:
        pairs = (
            ("userFile", self.user_file, "passwordFile", self.password_file),
            ("certFile", self.cert_file, "keyFile", self.key_file),
        )
        for first, one, second, other in pairs:
            if (one is None) != (other is None):
                given, missing = (second, first) if one is None else (first, second)
                yield Fault(given, f"expected serverless.nats.{missing} with it, got none")
        given_kinds = [
            name
            for name, file in (
                ("userFile", self.user_file),
                ("tokenFile", self.token_file),
                ("credentialsFile", self.credentials_file),
            )
            if file is not None
        ]
        if len(given_kinds) > 1:
            yield Fault(given_kinds[1], f"expected one kind of credentials, got {' and '.join(given_kinds)}")
