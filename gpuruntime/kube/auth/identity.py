"""Who the client says it is: fixed, or read from a token file that somebody rotates."""

import asyncio
import base64
import logging
from pathlib import Path
from typing import Protocol

from attrs import evolve, field, frozen

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.tls import Pem

__all__ = ["NOBODY", "FixedIdentity", "Identity", "IdentitySource", "TokenFile", "basic", "bearer", "header_value"]

log = logging.getLogger(__name__)


@frozen
class Identity:
    """An Authorization header, a client certificate, both, or nobody; equal if the server would see no difference."""

    authorization: str | None = field(default=None, repr=False)
    certificate: Pem | None = None
    key: Pem | None = None


NOBODY = Identity()


class IdentitySource(Protocol):
    """Where an identity comes from."""

    async def current(self) -> Identity:
        """The identity for the next request."""

    def invalidate(self, used: Identity) -> None:
        """The server refused `used`: unless it was replaced since, the next `current` asks the origin again."""


def header_value(text: str, place: str) -> str:
    """The text, if it can travel in a header."""
    if any(character < " " or character == "\x7f" for character in text):
        raise CredentialsError(f"{place}: expected one line, found a line break or another control character")
    return text


def bearer(token: str, place: str) -> str:
    return f"Bearer {header_value(token, place)}"


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")


@frozen
class FixedIdentity:
    """An identity that no refusal changes; its certificate files may still rotate."""

    identity: Identity

    async def current(self) -> Identity:
        return self.identity

    def invalidate(self, used: Identity) -> None:
        """There is no origin to ask."""


class TokenFile:
    """A bearer token in a file, read again when `period` seconds passed or the server refused it.

    The last token that could be read stays in use while the file is missing, empty or broken: it may be just being
    replaced. `identity` is what the token is added to; its own authorization, if any, is used until the file could be
    read once.
    """

    def __init__(self, path: Path, identity: Identity = NOBODY, *, period: float = 10.0) -> None:
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
                log.warning("token file not read, the previous token stays in use", extra={"error": str(error)})
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
