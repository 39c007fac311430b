"""The log of requests and responses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.testing.change_signal import ChangeSignal
from gpuruntime.testing.faults.exchanges import Call, ExchangeLog, is_write, name_in

WORDS = st.from_regex(r"[A-Za-z/.]{1,20}", fullmatch=True)


@given(st.builds(Call, WORDS, WORDS, st.integers(1)))
def test_a_call_round_trips_through_text(call: Call) -> None:
    assert Call.parse(str(call)) == call


@pytest.mark.parametrize("text", ["", "POST pods", "POST pods 2", "POST pods #", "POST pods #two", "POST  pods #2"])
def test_any_other_text_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="call"):
        Call.parse(text)


@pytest.mark.parametrize(
    ("path", "resource", "body", "name"),
    [
        ("/api/v1/namespaces/a/pods/web", "pods", b"", "web"),
        ("/api/v1/namespaces/a/pods/web/status", "pods/status", b"{}", "web"),
        ("/api/v1/namespaces/a", "namespaces", b"", "a"),
        ("/api/v1/namespaces/a/pods", "pods", b'{"metadata": {"name": "web"}}', "web"),
        ("/api/v1/namespaces/a/pods", "pods", b'{"metadata": {"generateName": "web-"}}', "web-*"),
        ("/api/v1/namespaces/a/pods", "pods", b"k8s\x00\x0a", ""),
        ("/api/v1/namespaces/a/pods", "pods", b"[1]", ""),
        ("/version", "/version", b"", ""),
    ],
)
def test_the_object_name_comes_from_the_path_or_the_body(path: str, resource: str, body: bytes, name: str) -> None:
    assert name_in(path, resource, body) == name


def test_writes_are_requests_that_change_the_cluster() -> None:
    cases = [("POST", "pods", False), ("GET", "pods", False), ("PUT", "pods", True), ("POST", "tokenreviews", False)]

    assert [is_write(method, resource, dry_run=dry) for method, resource, dry in cases] == [True, False, False, False]


async def test_exchanges_are_ordered_by_request_and_writes_by_response() -> None:
    log = ExchangeLog(ChangeSignal())
    first = log.begin(Call("POST", "pods", 1), "a", write=True)
    second = log.begin(Call("POST", "pods", 2), "b", write=True)
    third = log.begin(Call("POST", "pods", 3), "c", write=True)
    log.begin(Call("POST", "pods", 4), "d", write=True)

    log.answered(second, 201)
    log.answered(third, 409)
    log.answered(first, 201)

    assert [(exchange.name, exchange.status) for exchange in log.exchanges] == [
        ("a", 201),
        ("b", 201),
        ("c", 409),
        ("d", None),
    ]
    assert [str(write) for write in log.writes] == ["POST pods b", "POST pods a"]
