"""Frames between sidecars and activators."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.dispatch.protocol import (
    HeldLease,
    Hello,
    ProtocolError,
    Run,
    RunResult,
    WorkerFrame,
    decode_from_activator,
    decode_from_worker,
    encode_frame,
)
from gpuruntime.meta import FrozenDict

_HELLO = Hello(slots=2, revision="r1", leases=(HeldLease("l", "a", 1),))


@given(st.text(), st.dictionaries(st.text(), st.text()), st.binary())
def test_a_frame_arrives_as_it_was_sent(text: str, headers: dict[str, str], body: bytes) -> None:
    run = Run(lease=text, id=text, attempt=1, timeout_millis=5, headers=FrozenDict(headers))

    received, received_body = decode_from_activator(encode_frame(run, body))

    assert (received, received_body) == (run, body)


@pytest.mark.parametrize("frame", [_HELLO, RunResult(lease="l", id="a", attempt=1, state="succeeded")])
def test_a_frame_of_a_worker_arrives_as_it_was_sent(frame: WorkerFrame) -> None:
    assert decode_from_worker(encode_frame(frame, b"x")) == (frame, b"x")


@given(st.binary(max_size=64))
def test_any_other_bytes_are_an_error_of_the_protocol(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_from_worker(data)


@pytest.mark.parametrize(
    "data",
    [
        encode_frame(_HELLO)[:-1],
        encode_frame(_HELLO).replace(b'"hello"', b'"hallo"'),
        encode_frame(_HELLO).replace(b'"slots":2', b'"slots":"'),
        encode_frame(Run(lease="l", id="a", attempt=1, timeout_millis=1)),
    ],
    ids=["cut off", "another type", "no JSON", "of an activator"],
)
def test_a_broken_frame_is_an_error_of_the_protocol(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_from_worker(data)


def test_a_newer_sidecar_may_send_more_fields() -> None:
    data = encode_frame(_HELLO)
    header = data[4:].replace(b'"slots":2', b'"slots":2,"colour":"red"')

    frame, _ = decode_from_worker(len(header).to_bytes(4, "big") + header)

    assert isinstance(frame, Hello)
    assert frame.slots == 2
