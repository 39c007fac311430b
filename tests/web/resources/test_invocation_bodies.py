"""Requests to invoke a function, as clients of upstream send them."""

import json
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from gpuruntime.api.invocations import InvocationMode
from gpuruntime.api.rest.invocations import InvokeQuery
from gpuruntime.endpoints.server.errors import ApiError
from gpuruntime.web.resources.invocation_bodies import Invoke, read_invoke


def read(**fields: Any) -> Invoke:
    request = make_mocked_request("POST", "/", headers={"Content-Type": "application/json"})
    return read_invoke(request, json.dumps(fields).encode(), InvokeQuery())


@pytest.mark.parametrize("blank", ["", " "])
def test_a_text_that_is_blank_counts_as_left_out(blank: str) -> None:
    found = read(serverlessRequestID="sd-webui", mode=blank, invocationID=blank, contentType=blank, payload={"a": 1})

    assert found == Invoke(
        "sd-webui", b'{"a":1}', mode=InvocationMode.ASYNC, own_id="", content_type="application/json"
    )


@pytest.mark.parametrize("text", ["SD-WebUI", " sd-webui "])
def test_a_request_id_is_found_in_any_case_and_without_blanks(text: str) -> None:
    assert read(serverlessRequestID=text).request_id == "sd-webui"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"serverlessRequestID": " "}, "$.serverlessRequestID"),
        ({"serverlessRequestID": "a b"}, "$.serverlessRequestID"),
        ({"serverlessRequestID": 7}, "$.serverlessRequestID"),
        ({"serverlessRequestID": "echo", "mode": "SYNC"}, "$.mode"),
        ({"serverlessRequestID": "echo", "invocationID": "*"}, "$.invocationID"),
        ({"serverlessRequestID": "echo", "contentType": "json"}, "$.contentType"),
    ],
)
def test_what_upstream_refuses_is_refused_with_the_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as refused:
        read(**fields)

    assert (refused.value.status, refused.value.message.partition(":")[0]) == (400, field)
