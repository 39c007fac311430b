from datetime import UTC, datetime

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.invocations import InvocationKey
from gpuruntime.dispatch.activator.leases.signing import KEY_BYTES, LeaseError, LeaseSigner

SIGNER = LeaseSigner(bytes(KEY_BYTES))
KEY = InvocationKey("ns", "echo", "one")
ACK = "$JS.ACK.FN_ns_echo.workers.2.17.33.1763460000000000000.4"

texts = st.text(st.characters(codec="utf-8", exclude_characters="/"), max_size=12)
keys = st.builds(InvocationKey, texts, texts, texts)


def test_a_lease_says_what_it_is_for() -> None:
    lease = SIGNER.read(SIGNER.sign(KEY, "uid", 2, ACK), KEY, "uid")

    assert (lease.key, lease.pod_uid, lease.attempt, lease.ack_subject) == (KEY, "uid", 2, ACK)
    assert (lease.stream, lease.sequence) == ("FN_ns_echo", 17)
    assert lease.accepted == datetime.fromtimestamp(1763460000, UTC)


@given(keys, texts, st.integers(0, 1000), keys, texts)
def test_a_lease_is_valid_for_its_invocation_and_pod_alone(
    key: InvocationKey, uid: str, attempt: int, other: InvocationKey, other_uid: str
) -> None:
    token = SIGNER.sign(key, uid, attempt, ACK)

    assert SIGNER.read(token, key, uid).attempt == attempt
    if (other, other_uid) != (key, uid):
        with pytest.raises(LeaseError):
            SIGNER.read(token, other, other_uid)


@given(st.integers(min_value=0), st.characters(codec="utf-8"))
def test_a_lease_that_was_changed_anywhere_is_not_valid(place: int, character: str) -> None:
    token = SIGNER.sign(KEY, "uid", 1, ACK)
    index = place % len(token)
    changed = token[:index] + character + token[index + 1 :]

    if changed != token:
        with pytest.raises(LeaseError):
            SIGNER.read(changed, KEY, "uid")


@given(st.text(max_size=60))
def test_any_other_text_is_no_lease(text: str) -> None:
    with pytest.raises(LeaseError):
        SIGNER.read(text, KEY, "uid")


def test_a_lease_of_another_key_is_not_valid_unless_that_is_an_earlier_one() -> None:
    new = LeaseSigner(b"1" * KEY_BYTES)
    token = SIGNER.sign(KEY, "uid", 1, ACK)

    with pytest.raises(LeaseError):
        new.read(token, KEY, "uid")
    assert evolve(new, earlier=(SIGNER.key,)).read(token, KEY, "uid").key == KEY


def test_a_signed_subject_that_is_no_delivery_is_refused() -> None:
    with pytest.raises(LeaseError, match="names no delivery"):
        SIGNER.read(SIGNER.sign(KEY, "uid", 1, "res.ns.echo.one"), KEY, "uid")


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        LeaseSigner(b"short")
