"""A lease as a worker carries it: the subject that ends a delivery, signed for one invocation and one pod.

    <signature>/<attempt>/<ack subject>

The signature covers namespace, function, ID, UID of the pod, attempt and subject. A worker that changes one of them, or
brings the lease of another worker or function, has no valid lease.
"""

import base64
import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import InvocationKey
from gpuruntime.bus import delivery_of

__all__ = ["KEY_BYTES", "Lease", "LeaseError", "LeaseSigner"]

KEY_BYTES: Final = 32
"""The length of the key."""


class LeaseError(Exception):
    """The lease is not one that an activator gave to this worker for this invocation."""


@frozen
class Lease:
    """A lease that was checked. `accepted` is when NATS stored the request, by its own clock."""

    key: InvocationKey
    pod_uid: str
    token: str
    """What the worker carries."""
    attempt: int
    ack_subject: str
    stream: str
    sequence: int
    accepted: datetime


@frozen
class LeaseSigner:
    """Signs and checks leases. `earlier` keys are those of leases that workers may still carry."""

    key: bytes
    earlier: Sequence[bytes] = ()

    def __attrs_post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise ValueError(f"expected a key of {KEY_BYTES} bytes, got {len(self.key)}")

    def sign(self, key: InvocationKey, pod_uid: str, attempt: int, ack_subject: str) -> str:
        """The lease of a pod for a delivery."""
        return f"{_signature(self.key, key, pod_uid, attempt, ack_subject)}/{attempt}/{ack_subject}"

    def read(self, token: str, key: InvocationKey, pod_uid: str) -> Lease:
        """The lease that a pod carries for an invocation.

        Raises:
            LeaseError: it is not valid.
        """
        signature, _, rest = token.partition("/")
        attempt_text, _, ack_subject = rest.partition("/")
        if not attempt_text.isascii() or not attempt_text.isdigit():
            raise LeaseError("the lease is malformed")
        attempt = int(attempt_text)
        given = signature.encode()
        known = (self.key, *self.earlier)
        valid = [
            hmac.compare_digest(_signature(secret, key, pod_uid, attempt, ack_subject).encode(), given)
            for secret in known
        ]
        if not any(valid):
            raise LeaseError("the lease belongs to another worker, function or invocation")
        found = delivery_of("", b"", {}, ack_subject)
        if found is None:
            raise LeaseError("the lease names no delivery")
        return Lease(key, pod_uid, token, attempt, ack_subject, found.stream, found.stream_sequence, found.time)


def _signature(secret: bytes, key: InvocationKey, pod_uid: str, attempt: int, ack_subject: str) -> str:
    parts = (key.namespace, key.function, key.id, pod_uid, str(attempt), ack_subject)
    # Each part has its length before it: no two lists of parts give the same bytes.
    text = b"".join(len(part).to_bytes(4, "big") + part for part in (each.encode() for each in parts))
    return base64.urlsafe_b64encode(hmac.digest(secret, text, "sha256")).rstrip(b"=").decode()
