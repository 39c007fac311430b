"""Bearers: proof for one accessor that the gateway authorized a request, valid for a minute at most.

A bearer is `PAYLOAD.SIGNATURE`, both in base64url. The payload is JSON: `aud` is the UID of the storage, `iat` and
`exp` are seconds of the epoch. A bearer for one storage is worthless for every other one, also for a later one of the
same name.
"""

import base64
import binascii
import time
from collections.abc import Callable
from typing import Any, Final

import orjson
from attrs import frozen

from gpuruntime.gateway.signing.keys import PublicKeys, SigningKey

__all__ = ["LONGEST_SECONDS", "BearerCheck", "BearerError", "signed_bearer"]

LONGEST_SECONDS: Final = 60
"""How long a bearer is valid at most."""
_CLOCK_SKEW_SECONDS: Final = 30
# A signature of ours over anything else than a bearer must not pass as one.
_PURPOSE: Final = b"gpuruntime-access-v1."
_LONGEST_BEARER: Final = 1024


class BearerError(Exception):
    """A bearer is not valid; the message says why, without quoting it."""


def signed_bearer(key: SigningKey, audience: str, now: float) -> str:
    """A bearer for the accessor of the storage with this UID, valid from now on for a minute."""
    issued = int(now)
    payload = _encoded(orjson.dumps({"aud": audience, "iat": issued, "exp": issued + LONGEST_SECONDS}))
    return f"{payload.decode()}.{_encoded(key.sign(_PURPOSE + payload)).decode()}"


@frozen
class BearerCheck:
    """Checks the bearers of the accessor whose storage has the UID `audience`."""

    keys: PublicKeys
    audience: str
    now: Callable[[], float] = time.time

    def check(self, bearer: str) -> None:
        """Check one bearer.

        Raises:
            BearerError: it is malformed, was not signed by one of the keys, is for another storage, or has expired. A
                bearer that would be valid for longer than a minute is refused, and so is one from the future.
        """
        payload, _, signature = bearer.partition(".")
        if not bearer.isascii() or len(bearer) > _LONGEST_BEARER:
            raise BearerError("the bearer is malformed")
        if not self.keys.verify(_decoded(signature), _PURPOSE + payload.encode()):
            raise BearerError("the bearer was not signed by a known key")
        claims = _claims(payload)
        audience, issued, expires = (claims.get(name) for name in ("aud", "iat", "exp"))
        if audience != self.audience:
            raise BearerError("the bearer is for another storage")
        if not isinstance(issued, int) or not isinstance(expires, int) or not 0 < expires - issued <= LONGEST_SECONDS:
            raise BearerError(f"the bearer is not limited to {LONGEST_SECONDS} seconds")
        now = self.now()
        if issued > now + _CLOCK_SKEW_SECONDS:
            raise BearerError("the bearer is from the future: compare the clocks of the gateway and of this node")
        if expires <= now:
            raise BearerError("the bearer has expired")


def _claims(payload: str) -> dict[str, Any]:
    try:
        claims = orjson.loads(_decoded(payload))
    except orjson.JSONDecodeError:
        claims = None
    if not isinstance(claims, dict):
        raise BearerError("the bearer is malformed")
    return claims


def _encoded(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise BearerError("the bearer is malformed") from error
