"""The identity of a client: fixed, or from a token file that is rotated."""

import asyncio
import base64
import logging
from pathlib import Path
from typing import Protocol

from attrs import evolve, field, frozen

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.tls import Pem

__all__ = ["ANONYMOUS", "FixedIdentity", "Identity", "IdentitySource", "TokenFile", "basic", "bearer", "header_value"]

log = logging.getLogger(__name__)


@frozen
class Identity:
    """An Authorization header, a client certificate, both, or neither (anonymous)."""

    authorization: str | None = field(default=None, repr=False)
    certificate: Pem | None = None
    key: Pem | None = None


ANONYMOUS = Identity()


class IdentitySource(Protocol):
    """Provides the identity of each request."""

    async def current(self) -> Identity:
        """The identity for the next request."""

    def invalidate(self, used: Identity) -> None:
        """Note that the server refused `used`: unless it was replaced since, the next `current` loads it again."""


def header_value(text: str, place: str) -> str:
    """The text, if it is a valid header value."""
    if any(character < " " or character == "\x7f" for character in text):
        raise CredentialsError(f"{place}: expected one line, found a line break or another control character")
    return text


def bearer(token: str, place: str) -> str:
    return f"Bearer {header_value(token, place)}"


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")


@frozen
class FixedIdentity:
    """An identity that never changes; its certificate files may still be rotated."""

    identity: Identity

    async def current(self) -> Identity:
        return self.identity

    def invalidate(self, used: Identity) -> None:
        """Does nothing: there is nothing to load again."""


class TokenFile:
    """A bearer token in a file, read again every `period` seconds and when the server refused it.

    The last token stays in use while the file is missing, empty or invalid, as it may be during its replacement. The
    token is added to `identity`, whose own authorization, if any, is used until the file has been read once.
    """

    def __init__(self, path: Path, identity: Identity = ANONYMOUS, *, period: float = 10.0) -> None:
        self._path = path
        self._identity = identity
        self._period = period
        self._fresh_until = float("-inf")

    async def current(self) -> Identity:
        now = asyncio.get_running_loop().time()
        if now >= self._fresh_until:
            try:
                self._identity = evolve(self._identity, authorization=self._load())
            except CredentialsError as error:
                if self._identity.authorization is None:
                    raise
                log.warning("cannot read token file, keeping the previous token", extra={"error": str(error)})
            self._fresh_until = now + self._period
        return self._identity

    def invalidate(self, used: Identity) -> None:
        if used == self._identity:
            self._fresh_until = float("-inf")

    def _load(self) -> str:
        place = f"token file {self._path}"
        try:
            token = self._path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise CredentialsError(f"{place}: cannot be read: {reason}") from error
        if not token:
            raise CredentialsError(f"{place}: expected a token, found an empty file")
        return bearer(token, place)
