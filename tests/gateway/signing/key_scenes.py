"""Keys to sign and check with."""

from gpuruntime.gateway.signing.bearer import BearerCheck
from gpuruntime.gateway.signing.keys import PublicKeys, SigningKey

__all__ = ["UID", "checking"]

UID = "11111111-2222-3333-4444-555555555555"


def checking(*keys: SigningKey, audience: str = UID, now: float = 1000.0) -> BearerCheck:
    return BearerCheck(PublicKeys(key.public_text for key in keys), audience, lambda: now)
