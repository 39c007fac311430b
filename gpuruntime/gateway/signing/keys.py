"""Ed25519 keys: the private key in a PEM file of the gateway, public keys as texts in the config of the controllers.

Package cryptography is imported when a key is used, so that everything else works without it.
"""

import base64
import binascii
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from gpuruntime.endpoints.auth.file_state import file_state

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["MOST_PUBLIC_KEYS", "AccessKeyError", "PublicKeys", "SigningKey", "SigningKeyFile", "check_public_key"]

_LOG = logging.getLogger(__name__)
MOST_PUBLIC_KEYS: Final = 2
"""How many public keys are valid at a time: the current one, and the next or the last while keys are rotated."""
_KEY_BYTES: Final = 32
_EXPECTED: Final = "the text that `gpuruntime access-key` prints: base64 of 32 bytes"


class AccessKeyError(Exception):
    """A key is missing or invalid, or cannot be used; the message says what to do, and contains no key."""


def check_public_key(text: str) -> str:
    """The text of a public key, checked without package cryptography.

    Raises:
        AccessKeyError: it is none.
    """
    _raw(text)
    return text


@frozen
class SigningKey:
    """A private key."""

    _key: "Ed25519PrivateKey" = field(repr=False)

    @classmethod
    def generate(cls) -> "SigningKey":
        """A new random key.

        Raises:
            AccessKeyError: package cryptography is not installed.
        """
        ed25519, _ = _cryptography()
        return cls(ed25519.Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, path: Path) -> "SigningKey":
        """The key of a PEM file.

        Raises:
            AccessKeyError: the file is unreadable or holds no Ed25519 key, or package cryptography is not installed.
        """
        ed25519, serialization = _cryptography()
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise AccessKeyError(f"signing key {path} cannot be read: {reason}") from error
        except (ValueError, TypeError) as error:
            raise AccessKeyError(f"signing key {path}: expected PEM without a password") from error
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise AccessKeyError(f"signing key {path}: expected an Ed25519 key; `gpuruntime access-key` makes one")
        return cls(key)

    @property
    def pem(self) -> bytes:
        """The private key, for a file that only the gateway can read."""
        _, serialization = _cryptography()
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def public_text(self) -> str:
        """The public key, which is not secret."""
        return base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


class SigningKeyFile:
    """The private key of a file.

    Guarantees:
        A change of the file takes effect with the next request. If the changed file is missing or invalid, the last
        valid key stays in use, and an error is logged.
    """

    def __init__(self, path: Path) -> None:
        """Load the file.

        Raises:
            AccessKeyError: it is unreadable or holds no key.
        """
        self._path = path
        self._seen = file_state(path)
        self._key = SigningKey.read(path)

    def current(self) -> SigningKey:
        """The key to sign with now."""
        state = file_state(self._path)
        if state != self._seen:
            self._seen = state
            try:
                self._key = SigningKey.read(self._path)
            except AccessKeyError as error:
                _LOG.error("invalid signing key, keeping the last valid one", extra={"error": str(error)})
            else:
                _LOG.info("signing key reloaded", extra={"path": str(self._path), "public_key": self._key.public_text})
        return self._key


class PublicKeys:
    """The public keys that are valid."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Read one or two keys.

        Raises:
            AccessKeyError: a text is no key, there are too few or too many, or package cryptography is not installed.
        """
        given = tuple(texts)
        if not 1 <= len(given) <= MOST_PUBLIC_KEYS:
            raise AccessKeyError(f"public keys: expected 1 to {MOST_PUBLIC_KEYS}, got {len(given)}")
        ed25519, _ = _cryptography()
        self._keys: tuple[Ed25519PublicKey, ...] = tuple(
            ed25519.Ed25519PublicKey.from_public_bytes(_raw(text)) for text in given
        )

    def verify(self, signature: bytes, message: bytes) -> bool:
        """Whether one of the keys made the signature."""
        return any(_is_valid(key, signature, message) for key in self._keys)


def _is_valid(key: "Ed25519PublicKey", signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - the extra `access`

    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _raw(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AccessKeyError(f"public key {text[:60]!r}: expected {_EXPECTED}") from error
    if len(raw) != _KEY_BYTES:
        raise AccessKeyError(f"public key {text[:60]!r}: expected {_EXPECTED}")
    return raw


def _cryptography() -> tuple[Any, Any]:
    """The modules of Ed25519 keys and of their files.

    Raises:
        AccessKeyError: package cryptography is not installed.
    """
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - the extra `access`
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - the extra `access`
    except ImportError as error:
        raise AccessKeyError(
            f"access keys need package cryptography: install it with `pip install gpuruntime[access]`: {error}"
        ) from error
    return ed25519, serialization
