"""The credentials of a connection, read from files at each connect: user and password, a token, or a credentials file.

A credentials file has a JWT and the seed of an nkey, which is an Ed25519 key; the server's nonce is signed with it.
"""

import base64
import binascii
import re
from pathlib import Path
from typing import Final

from attrs import frozen

__all__ = ["BusCredentials", "Login", "SignedLogin"]

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z ]+)-----\s+(\S+)\s+-+END \1-+")
_JWT: Final = "NATS USER JWT"
_SEED: Final = "USER NKEY SEED"
# The bytes of a decoded seed: two of prefix, the key, two of checksum.
_SEED_LENGTH: Final = 36
_SEED_PREFIX: Final = 18 << 3  # "S"


@frozen
class Login:
    """What the server is shown; all None where it asks for nothing."""

    user: str | None = None
    password: str | None = None
    token: str | None = None


@frozen
class SignedLogin:
    """A JWT, and the raw key with which the nonce of the server is signed."""

    jwt: str
    key: bytes

    def sign(self, nonce: str) -> bytes:
        """The signature of the nonce, in base64."""
        # Imported here: only credentials files need it.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

        return base64.b64encode(Ed25519PrivateKey.from_private_bytes(self.key).sign(nonce.encode()))


@frozen
class BusCredentials:
    """The files of one kind of credentials: user and password, or a token, or a credentials file, or none."""

    user_file: Path | None = None
    password_file: Path | None = None
    token_file: Path | None = None
    credentials_file: Path | None = None

    def read(self) -> Login | SignedLogin:
        """The present contents of the files.

        Raises:
            OSError: a file cannot be read.
            ValueError: a file does not have what is expected; the message has no secret.
        """
        if self.credentials_file is not None:
            return _signed(self.credentials_file)
        return Login(_line(self.user_file), _line(self.password_file), _line(self.token_file))


def _line(file: Path | None) -> str | None:
    if file is None:
        return None
    text = file.read_text().strip()
    if not text or "\n" in text:
        raise ValueError(f"{file}: expected one line, got {'none' if not text else 'several'}")
    return text


def _signed(file: Path) -> SignedLogin:
    blocks = dict(_BLOCK.findall(file.read_text()))
    missing = [name for name in (_JWT, _SEED) if name not in blocks]
    if missing:
        raise ValueError(f"{file}: expected a credentials file, found no block {' and no block '.join(missing)}")
    return SignedLogin(blocks[_JWT], _raw_key(blocks[_SEED], file))


def _raw_key(seed: str, file: Path) -> bytes:
    try:
        decoded = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except binascii.Error:
        decoded = b""
    if len(decoded) != _SEED_LENGTH or decoded[0] & 0xF8 != _SEED_PREFIX or _checksum(decoded[:-2]) != decoded[-2:]:
        raise ValueError(f"{file}: expected the seed of an nkey, which begins with SU, got something else")
    return decoded[2:-2]


def _checksum(data: bytes) -> bytes:
    """CRC-16/XMODEM, as binascii has it; nkeys store it in little-endian order."""
    return binascii.crc_hqx(data, 0).to_bytes(2, "little")
