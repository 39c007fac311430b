"""Authentication by a token file, which has one line for each bearer token, with the SHA-256 of the token.

::

    # name:scope:sha256
    billing:read:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae

`new_token` generates both. A name may have several lines, so that its tokens can be rotated.
"""

import logging
import re
import secrets
from collections.abc import Iterator
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Final

from attrs import field, frozen

from gpuruntime.endpoints.auth.file_state import file_state
from gpuruntime.endpoints.auth.scopes import GrantError, parse_scope
from gpuruntime.endpoints.server.route import Caller, Scope

__all__ = ["NewToken", "TokenFile", "TokenFileError", "new_token"]

_LOG = logging.getLogger(__name__)
_LINE: Final = re.compile(r"(?P<name>[!-~]{1,200}):(?P<scope>[a-z+]+):(?P<hash>[0-9a-f]{64})")
_PREFIX: Final = "gpr_"
_RANDOM_BYTES: Final = 32


class TokenFileError(Exception):
    """The token file is unreadable or has an invalid line; the message names both."""


@frozen
class NewToken:
    """A token, which only its owner must know, and its line for the token file."""

    token: str = field(repr=False)
    line: str


def new_token(name: str, scope: Scope) -> NewToken:
    """Generate a token of 256 random bits for a caller of this name.

    Raises:
        TokenFileError: the name is not allowed in a token file.
    """
    token = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    line = f"{name}:{scope}:{_digest(token)}"
    if _LINE.fullmatch(line) is None or name.startswith("#"):
        raise TokenFileError(f"name {name!r}: expected 1 to 200 visible ASCII characters, not beginning with #")
    return NewToken(token, line)


class TokenFile:
    """Authenticates callers by the tokens of a file.

    Guarantees:
        A change of the file takes effect with the next request. The comparison of tokens takes constant time.

    Caveats:
        If the changed file is missing or invalid, the last valid tokens stay in use, and an error is logged: to revoke
        all tokens, empty the file. A token must be random, see `new_token`.
    """

    def __init__(self, path: Path) -> None:
        """Load the file.

        Raises:
            TokenFileError: it is unreadable or has an invalid line.
        """
        self._path = path
        self._seen = file_state(path)
        self._owners = _read(path)

    async def authenticate(self, token: str) -> Caller | None:
        self._reload()
        digest = _digest(token)
        # Compares with all lines, even after a match: the time must not reveal the position of a token in the file.
        matches = [owner for known, owner in self._owners if compare_digest(known, digest)]
        return matches[0] if matches else None

    def _reload(self) -> None:
        state = file_state(self._path)
        if state == self._seen:
            return
        self._seen = state
        try:
            self._owners = _read(self._path)
        except TokenFileError as error:
            _LOG.error("invalid token file, keeping the last valid tokens", extra={"error": str(error)})
        else:
            _LOG.info("token file reloaded", extra={"path": str(self._path), "tokens": len(self._owners)})


def _read(path: Path) -> tuple[tuple[str, Caller], ...]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TokenFileError(f"token file {path} cannot be read: {reason.lower()}") from error
    owners = tuple(_owners(path, text))
    if len({digest for digest, _ in owners}) < len(owners):
        raise TokenFileError(f"token file {path}: expected every hash once, got a hash twice")
    return owners


def _owners(path: Path, text: str) -> Iterator[tuple[str, Caller]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = _LINE.fullmatch(line.strip())
        if parts is None:
            # The line is not quoted: it may contain the token itself by mistake.
            raise TokenFileError(f"token file {path}, line {number}: expected name:scope:sha256 (64 hex digits)")
        try:
            yield parts["hash"], Caller(parts["name"], parse_scope(parts["scope"]))
        except GrantError as error:
            raise TokenFileError(f"token file {path}, line {number}: {error}") from error


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
