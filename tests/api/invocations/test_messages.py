"""Stored messages of invocations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.invocations import (
    METADATA_HEADER,
    InvocationState,
    MessageError,
    QueuedInvocation,
    ResultRecord,
    metadata_headers,
    read_queued,
    read_result,
    request_hash,
)
from gpuruntime.meta import FrozenDict

_TEXTS = st.dictionaries(st.text(), st.text(), max_size=3)


@given(st.text(), _TEXTS, _TEXTS)
def test_a_message_is_one_line_of_ascii_and_is_read_as_it_was_written(
    text: str, headers: dict[str, str], attributes: dict[str, str]
) -> None:
    queued = QueuedInvocation(
        "h", content_type=text, headers=FrozenDict(headers), attributes=FrozenDict(attributes), timeout_millis=7
    )

    stored = metadata_headers(queued)

    assert stored[METADATA_HEADER].isascii()
    assert stored[METADATA_HEADER].isprintable()
    assert read_queued(stored) == queued


@pytest.mark.parametrize("stored", [{}, {METADATA_HEADER: "{"}, {METADATA_HEADER: "[]"}, {METADATA_HEADER: "{}"}])
def test_a_message_of_another_program_is_refused(stored: dict[str, str]) -> None:
    with pytest.raises(MessageError, match=METADATA_HEADER):
        read_queued(stored)


def test_a_result_has_a_terminal_state() -> None:
    ended = ResultRecord(InvocationState.SUCCEEDED.value, status_code=200)
    running = ResultRecord(InvocationState.RUNNING.value)

    assert read_result(metadata_headers(ended)) == ended
    with pytest.raises(MessageError, match="running"):
        read_result(metadata_headers(running))


@given(st.binary(), st.binary(), _TEXTS)
def test_the_hash_tells_another_request_from_a_repeated_one(one: bytes, other: bytes, headers: dict[str, str]) -> None:
    first = request_hash(one, content_type="text/plain", headers=headers)

    assert first == request_hash(one, content_type="text/plain", headers=dict(reversed(headers.items())))
    assert (first == request_hash(other, content_type="text/plain", headers=headers)) == (one == other)
    assert first != request_hash(one, content_type="text/html", headers=headers)
    assert first != request_hash(one, content_type="text/plain", headers=headers, timeout_millis=1)
