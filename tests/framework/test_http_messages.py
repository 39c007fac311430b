"""HTTP messages come out of bytes the same however these are cut; what is ambiguous is refused."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.framework.http_messages import HttpError, HttpLimits, HttpReader, Message, read_requests, read_responses

LENGTH = b"POST /invoke HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"POST /invoke HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"3;name=value\r\nhel\r\n2 \r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
BARE = b"GET /healthz HTTP/1.0\r\nX-A: 1\r\nx-a:\t2 \r\n\r\n"
RESPONSES = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    b"HTTP/1.1 204 No Content\r\n\r\n"
    b"HTTP/1.1 200\r\nContent-Type: text/plain\r\n\r\nuntil the end"
)


def read(reader: HttpReader, pieces: list[bytes]) -> list[Message]:
    found = []
    for piece in pieces:
        reader.feed(piece)
        while (message := reader.next()) is not None:
            found.append(message)
    last = reader.end()
    return found if last is None else [*found, last]


def cut(data: bytes, positions: list[int]) -> list[bytes]:
    edges = [0, *sorted(position % (len(data) + 1) for position in positions), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_requests_are_read_however_they_are_cut(positions: list[int]) -> None:
    messages = read(read_requests(), cut(LENGTH + CHUNKED + BARE, positions))

    assert [(message.method, message.target, message.body) for message in messages] == [
        ("POST", "/invoke", b"hello"),
        ("POST", "/invoke", b"hello"),
        ("GET", "/healthz", b""),
    ]
    assert messages[2].headers == {"x-a": "1, 2"}
    assert [message.keep_alive for message in messages] == [True, True, False]


@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_responses_are_read_however_they_are_cut(positions: list[int]) -> None:
    messages = read(read_responses(), cut(RESPONSES, positions))

    assert [(message.status, message.body, message.keep_alive) for message in messages] == [
        (200, b"ok", True),
        (204, b"", True),
        (200, b"until the end", False),
    ]


@given(st.binary(max_size=200), st.lists(st.integers(1, 60), max_size=8))
def test_any_bytes_travel_in_chunks(body: bytes, sizes: list[int]) -> None:
    chunks, rest = [], body
    for size in sizes:
        piece, rest = rest[:size], rest[size:]
        chunks.append(b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b"")
    chunks.append(b"%x\r\n%s\r\n" % (len(rest), rest) if rest else b"")
    request = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\n\r\n"

    (message,) = read(read_requests(), [request])

    assert message.body == body


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: b\nB: c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: \x00\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 101\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n", 413),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * 300, 431),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431),
    ],
)
def test_what_is_ambiguous_or_too_large_is_refused(data: bytes, status: int) -> None:
    reader = read_requests(HttpLimits(head=2000 if data.count(b"\r\n") > 200 else 200, body=100))

    with pytest.raises(HttpError) as refused:
        read(reader, [data])

    assert refused.value.status == status


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_fail_otherwise(data: bytes) -> None:
    for reader in (read_requests(HttpLimits(100, 100)), read_responses(HttpLimits(100, 100))):
        try:
            read(reader, [data])
        except HttpError:
            continue


def test_a_connection_that_ends_within_a_message_is_an_error() -> None:
    reader = read_requests()
    reader.feed(LENGTH[:-1])

    assert reader.next() is None
    with pytest.raises(HttpError, match="ended within a message"):
        reader.end()


def test_a_client_that_waits_for_100_continue_gets_it_once_and_only_with_a_body() -> None:
    reader = read_requests()
    reader.feed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")

    assert reader.next() is None
    assert [reader.take_continue(), reader.take_continue()] == [True, False]

    reader.feed(b"ok" + b"GET / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n")
    assert [message.method for message in read(reader, [b""])] == ["POST", "GET"]
    assert not reader.take_continue()
