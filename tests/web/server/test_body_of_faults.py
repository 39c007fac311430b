"""A request full of small faults costs little to refuse, and its refusal is short."""

import json

import orjson
import pytest

from gpuruntime.web.auth.access_control import Access
from gpuruntime.web.resources.unit_bodies import CreateUnitBody
from gpuruntime.web.server.body import decoded, parse_object
from gpuruntime.web.server.errors import ApiError, error_body
from tests.web.frame_scenes import Widgets, bearer, serving_widgets

MEGABYTE = 2**20
MOST_VALUES = 4_000


def filled(unit: bytes, head: bytes, tail: bytes) -> bytes:
    """A megabyte of the same."""
    return (head + unit * ((MEGABYTE - len(head) - len(tail)) // len(unit))).rstrip(b",") + tail


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(filled(b"{},", b'{"template":{"envs":[', b"]}}"), id="empty objects"),
        pytest.param(filled(b'{"a":1},', b'{"template":{"envs":[', b"]}}"), id="wrong objects"),
        pytest.param(filled(b"[],", b'{"template":{"args":[', b"]}}"), id="empty lists"),
        pytest.param(filled(b"1,", b'{"template":{"args":[', b"]}}"), id="numbers"),
        pytest.param(filled(b'"",', b'{"template":{"args":[', b"]}}"), id="empty strings"),
        pytest.param(filled(b'"a":0,', b"{", b"}"), id="the same key again and again"),
        pytest.param(filled(b"[", b'{"a":', b"}"), id="without end"),
    ],
)
def test_a_megabyte_of_small_faults_is_refused_in_one_sentence(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        decoded(parse_object(body), CreateUnitBody)

    assert [fault.message for fault in caught.value.details] == [
        f"expected at most {MOST_VALUES} items and fields in all, got more"
    ]


def test_of_many_faults_a_hundred_are_told_and_that_there_are_more() -> None:
    body = orjson.dumps({f"k{number}": 1 for number in range(MOST_VALUES - 1)})

    with pytest.raises(ApiError) as caught:
        decoded(parse_object(body), CreateUnitBody)

    error = orjson.loads(error_body(caught.value))["error"]
    assert len(error["details"]) == 100
    assert error["message"].endswith("; and more than 97 others, see details")


async def test_a_query_of_very_many_parameters_is_refused_in_one_sentence() -> None:
    query = "&".join(f"k{number}=1" for number in range(5000))

    async with serving_widgets(Widgets(), Access.CREDENTIALS) as client:
        response = await client.get(f"/api/v1/widgets?{query}"[:7000], headers=bearer("read"))
        error = json.loads(await response.read())["error"]

    assert response.status == 400
    assert [fault["path"] for fault in error["details"]] == ["?"]
    assert "expected at most 64 parameters" in error["message"]
