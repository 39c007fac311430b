"""Limits of bodies and queries: a request that exceeds them is rejected cheaply, with a short response."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.rest.gpu_units import CreateUnitBody
from gpuruntime.endpoints.auth.access_control import Access
from gpuruntime.endpoints.server.body import decoded, exceeds_values, parse_object
from gpuruntime.endpoints.server.errors import ApiError, error_body
from tests.endpoints.endpoint_scenes import Widgets, bearer, serving_widgets

MEGABYTE = 2**20
MOST_VALUES = 4_000
TEXT = st.text(alphabet=st.sampled_from('a,[{:"\\\n\u20ac'), max_size=30)
JSON = st.recursive(
    st.one_of(TEXT, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=30,
)


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
def test_a_megabyte_of_small_values_is_rejected_with_one_fault(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        decoded(parse_object(body), CreateUnitBody)

    [fault] = caught.value.details
    assert str(MOST_VALUES) in fault.message


def test_a_response_lists_at_most_a_hundred_faults_and_says_that_there_are_more() -> None:
    body = orjson.dumps({f"k{number}": 1 for number in range(MOST_VALUES - 1)})

    with pytest.raises(ApiError) as caught:
        decoded(parse_object(body), CreateUnitBody)

    error = orjson.loads(error_body(caught.value))["error"]
    assert len(error["details"]) == 100
    assert "97" in error["message"]


async def test_a_query_with_too_many_parameters_is_rejected_with_one_fault() -> None:
    query = "&".join(f"k{number}=1" for number in range(5000))

    async with serving_widgets(Widgets(), Access.CREDENTIALS) as client:
        response = await client.get(f"/api/v1/widgets?{query}"[:7000], headers=bearer("read"))
        error = json.loads(await response.read())["error"]

    assert response.status == 400
    assert [fault["path"] for fault in error["details"]] == ["?"]
    assert "64" in error["message"]


def items_of(value: Any) -> int:
    """The number of items and fields, counted one by one."""
    match value:
        case dict():
            return max(len(value), 1) + sum(map(items_of, value.values()))
        case list():
            return max(len(value), 1) + sum(map(items_of, value))
        case _:
            return 0


@given(value=st.one_of(st.lists(JSON), st.dictionaries(TEXT, JSON)), most=st.integers(1, 40), is_ascii=st.booleans())
def test_items_and_fields_are_counted_exactly_whatever_the_strings_contain(
    value: Any, most: int, is_ascii: bool
) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii).encode()

    assert exceeds_values(data, most) == (items_of(value) > most)


def test_the_largest_valid_unit_is_below_the_limit() -> None:
    reference = {"secretKeyRef": {"name": "n", "key": "k", "optional": True}}
    envs = [{"name": f"E{number}", "valueFrom": reference} for number in range(256)]
    ports = [{"name": f"p{number}", "port": number + 1, "protocol": "TCP"} for number in range(32)]
    template = {"command": ["c"] * 256, "args": ["a,b"] * 256, "envs": envs, "ports": ports}
    labels = {f"l{number}": "v" for number in range(64)}
    secrets = [{"name": f"s{number}"} for number in range(16)]
    unit = {"name": "a", "specName": "g", "image": "i", "labels": labels, "imagePullSecrets": secrets}

    assert decoded(parse_object(orjson.dumps(unit | {"template": template})), CreateUnitBody).name == "a"
