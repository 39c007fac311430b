"""An answer is a JSON object, or it is not from an API server."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.kube import Response, UnexpectedResponseError


def answer(body: bytes) -> Response:
    return Response(200, CIMultiDictProxy(CIMultiDict({"Content-Type": "text/plain"})), body, "PUT /x")


def test_a_json_object_is_given_back() -> None:
    assert answer(b'{"a": [1]}').json_object() == {"a": [1]}


@pytest.mark.parametrize(
    ("body", "found"),
    [(b"<html>", "text/plain: <html>"), (b"", "text/plain: "), (b"[1]", ": [1]")],
)
def test_anything_else_is_unexpected_and_leaves_the_outcome_open(body: bytes, found: str) -> None:
    with pytest.raises(UnexpectedResponseError) as caught:
        answer(body).json_object()

    assert str(caught.value).startswith("PUT /x: ")
    assert str(caught.value).endswith(found)
    assert caught.value.outcome_unknown is True
