import contextlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.kube.errors import ExpiredError, KubeError, ServerError
from gpuruntime.kube.watch_events import BrokenStreamError, Lines, parse_event


def line(kind: str, **metadata: object) -> bytes:
    return orjson.dumps({"type": kind, "object": {"kind": "Pod", "metadata": metadata}})


@given(st.lists(st.binary(max_size=30).map(lambda part: part.replace(b"\n", b"")), max_size=20), st.data())
def test_however_a_stream_is_cut_the_lines_are_the_same(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(part + b"\n" for part in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))

    splitter = Lines()
    found: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if end > start:
            found += splitter.feed(stream[start:end])
    splitter.end()

    assert found == lines


def test_a_stream_that_ends_in_the_middle_of_a_line_is_broken() -> None:
    splitter = Lines()

    assert splitter.feed(b'{"type"') == []
    with pytest.raises(BrokenStreamError, match="7 bytes"):
        splitter.end()


def test_a_line_of_five_megabytes_passes() -> None:
    long = line("ADDED", name="x" * 5_000_000)
    splitter = Lines()

    pieces = [long[start : start + 65536] for start in range(0, len(long), 65536)]
    found = [done for piece in pieces for done in splitter.feed(piece)] + splitter.feed(b"\n")

    assert found == [long]


def test_an_event_has_its_version() -> None:
    event = parse_event(line("MODIFIED", name="x", resourceVersion="42"))

    assert event is not None
    assert (event.type, event.resource_version, event.ends_initial_events) == ("MODIFIED", "42", False)


def test_the_bookmark_that_ends_a_streamed_list_is_known() -> None:
    annotations = {"k8s.io/initial-events-end": "true"}

    event = parse_event(line("BOOKMARK", resourceVersion="42", annotations=annotations))

    assert event is not None
    assert event.ends_initial_events


def test_unknown_types_and_empty_lines_are_passed_over() -> None:
    assert parse_event(line("PROGRESS", name="x")) is None
    assert parse_event(b"") is None
    assert parse_event(b" \r") is None


def test_an_error_event_is_the_error_that_the_server_means() -> None:
    expired = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    failed = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcdserver: leader changed"}

    with pytest.raises(ExpiredError, match="too old"):
        parse_event(orjson.dumps({"type": "ERROR", "object": expired}))
    with pytest.raises(ServerError, match="leader changed"):
        parse_event(orjson.dumps({"type": "ERROR", "object": failed}))


@given(st.binary() | st.from_type(dict).map(str).map(str.encode))
def test_whatever_a_line_is_it_is_an_event_nothing_or_a_kube_error(content: bytes) -> None:
    with contextlib.suppress(KubeError):
        parse_event(content)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["type", "object", "metadata", "annotations", "resourceVersion"]), inner)
        ),
    )
)
def test_whatever_json_comes_reading_an_event_raises_nothing_but_kube_errors(value: object) -> None:
    try:
        event = parse_event(orjson.dumps(value))
    except KubeError:
        return
    if event is not None:
        assert isinstance(event.resource_version, str)
        assert event.ends_initial_events in (True, False)
