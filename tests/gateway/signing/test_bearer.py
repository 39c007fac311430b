import base64
from typing import Any

import orjson
import pytest

from gpuruntime.gateway.signing.bearer import LONGEST_SECONDS, BearerError, signed_bearer
from gpuruntime.gateway.signing.keys import SigningKey
from tests.gateway.signing.key_scenes import UID, checking

OURS, THEIRS = SigningKey.generate(), SigningKey.generate()


def forged(**claims: Any) -> str:
    """A bearer with these claims, signed with our key."""
    payload = base64.urlsafe_b64encode(orjson.dumps({"aud": UID, "iat": 1000, "exp": 1060, **claims})).rstrip(b"=")
    signature = OURS.sign(b"gpuruntime-access-v1." + payload)
    return f"{payload.decode()}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize("now", [1000.0, 1030.0, 1000.0 + LONGEST_SECONDS - 1, 980.0])
def test_a_bearer_is_valid_for_a_minute(now: float) -> None:
    bearer = signed_bearer(OURS, UID, 1000.0)

    checking(OURS, now=now).check(bearer)


def test_during_a_rotation_bearers_of_both_keys_are_valid() -> None:
    check = checking(OURS, THEIRS)

    check.check(signed_bearer(OURS, UID, 1000.0))
    check.check(signed_bearer(THEIRS, UID, 1000.0))


@pytest.mark.parametrize(
    ("bearer", "now", "reason"),
    [
        (signed_bearer(OURS, UID, 1000.0), 1060.0, "expired"),
        (signed_bearer(OURS, UID, 1000.0), 5000.0, "expired"),
        (signed_bearer(OURS, UID, 2000.0), 1000.0, "future"),
        (signed_bearer(OURS, "another", 1000.0), 1000.0, "another storage"),
        (signed_bearer(OURS, "", 1000.0), 1000.0, "another storage"),
        (signed_bearer(THEIRS, UID, 1000.0), 1000.0, "known key"),
        (forged(exp=1061), 1000.0, "60 seconds"),
        (forged(exp=999), 1000.0, "60 seconds"),
        (forged(exp=None), 1000.0, "60 seconds"),
        (forged(iat="1000"), 1000.0, "60 seconds"),
        (forged(aud=[UID]), 1000.0, "another storage"),
        (signed_bearer(OURS, UID, 1000.0) + "x", 1000.0, "malformed|known key"),
        (signed_bearer(OURS, UID, 1000.0).partition(".")[0] + ".", 1000.0, "known key"),
        ("", 1000.0, "known key"),
        ("a.b.c", 1000.0, "malformed|known key"),
        ("\u00e9.\u00e9", 1000.0, "malformed"),
        ("a" * 5000, 1000.0, "malformed"),
    ],
)
def test_any_other_bearer_is_refused_without_being_quoted(bearer: str, now: float, reason: str) -> None:
    with pytest.raises(BearerError, match=reason) as refused:
        checking(OURS, now=now).check(bearer)

    assert not bearer or bearer not in str(refused.value)


def test_a_payload_of_another_bearer_does_not_fit_its_signature() -> None:
    payload = forged(aud="another").partition(".")[0]
    signature = signed_bearer(OURS, UID, 1000.0).partition(".")[2]

    with pytest.raises(BearerError, match="known key"):
        checking(OURS, audience="another").check(f"{payload}.{signature}")
