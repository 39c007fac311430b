"""Requests as handlers get them, and replies as callers get them."""

import logging

import orjson
import pytest
from yarl import URL

from gpuruntime.endpoints.server.route import Caller, Scope
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.schema import Violation
from gpuruntime.service.errors import InsufficientCapacityError, InvalidRequestError, ObjectNotFoundError
from tests.endpoints.endpoint_scenes import WidgetBody, Widgets, bearer, serving_widgets

CREATE = {"operationID": "op-1", "name": "a", "size": 3}


async def test_a_handler_gets_a_decoded_request_and_its_reply_is_sent_in_the_response_format() -> None:
    widgets = Widgets()

    async with serving_widgets(widgets) as client:
        response = await client.post("/api/v1/widgets", json=CREATE, headers=bearer("write"))
        answer = await response.json()

    (call,) = widgets.calls
    assert (response.status, answer) == (201, {"data": {"name": "a", "size": 3}})
    assert call.body == WidgetBody("a", 3)
    assert call.operation_id == response.headers["Idempotency-Key"] == "op-1"
    assert call.caller == Caller("the-write", Scope.WRITE)


async def test_a_list_has_its_items_in_data_and_a_cursor_in_next() -> None:
    widgets = Widgets()

    async with serving_widgets(widgets) as client:
        response = await client.get("/api/v1/widgets?limit=5&watch=1&phase=Ready", headers=bearer("read"))
        answer = await response.json()

    (call,) = widgets.calls
    assert answer == {"data": [{"name": "a", "size": 1}, {"name": "b", "size": 2}], "next": "b"}
    assert (call.query.limit, call.query.watch, call.query.phase) == (5, True, "Ready")


async def test_all_faults_of_a_request_are_reported_at_once_and_the_handler_is_not_called() -> None:
    widgets = Widgets()
    body = {"size": 9, "color": "red", "parts": [{"name": "A"}]}

    async with serving_widgets(widgets) as client:
        response = await client.post("/api/v1/widgets?limit=1", json=body, headers=bearer("write"))
        error = (await response.json())["error"]

    assert widgets.calls == []
    assert (response.status, error["code"]) == (400, "invalid_request")
    assert {(detail["path"], detail.get("rule")) for detail in error["details"]} == {
        ("$.operationID", "required"),
        ("?limit", "unknown"),
        ("$.name", "required"),
        ("$.size", "maximum"),
        ("$.color", "unknown"),
        ("$.parts[0].name", "pattern"),
    }


async def test_an_error_never_quotes_a_secret_of_the_body() -> None:
    body = {**CREATE, "parts": [{"name": "a", "secret": ["hunter2"]}]}

    async with serving_widgets(Widgets()) as client:
        response = await client.post("/api/v1/widgets", json=body, headers=bearer("write"))
        text = await response.text()

    assert response.status == 400
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ObjectNotFoundError("no such widget"), 404, "widget_not_found"),
        (InsufficientCapacityError("none left"), 409, "insufficient_capacity"),
        (InvalidRequestError((Violation("name", "another"),)), 400, "invalid_request"),
        (UnavailableError("connection refused", retry_after=7), 503, "service_unavailable"),
        (RuntimeError("password is hunter2"), 500, "internal_error"),
    ],
)
async def test_an_exception_of_a_handler_is_an_error_response(error: Exception, status: int, code: str) -> None:
    widgets = Widgets()
    widgets.error = error

    async with serving_widgets(widgets) as client:
        response = await client.get("/api/v1/widgets/a", headers=bearer("read"))
        answer = await response.json()

    assert (response.status, answer["error"]["code"]) == (status, code)
    assert response.headers.get("Retry-After") == ("7" if status == 503 else None)
    assert "hunter2" not in orjson.dumps(answer).decode()


async def test_a_read_with_the_current_etag_gets_304() -> None:
    async with serving_widgets(Widgets()) as client:
        known = await client.get("/api/v1/widgets/a", headers={**bearer("read"), "If-None-Match": '"7"'})
        other = await client.get("/api/v1/widgets/a", headers={**bearer("read"), "If-None-Match": '"6"'})

        assert (known.status, await known.read()) == (304, b"")
        assert (other.status, other.headers["ETag"]) == (200, '"7"')


async def test_head_is_get_without_a_body_and_options_lists_the_methods() -> None:
    async with serving_widgets(Widgets()) as client:
        head = await client.head("/api/v1/widgets/a", headers=bearer("read"))
        options = await client.options("/api/v1/widgets/a")

        assert (head.status, await head.read()) == (200, b"")
        assert (options.status, options.headers["Allow"]) == (204, "DELETE,GET,HEAD,OPTIONS")
        assert "Access-Control-Allow-Origin" not in options.headers


async def test_headers_reach_the_handler() -> None:
    widgets = Widgets()
    headers = {**bearer("operator"), "If-Match": '"41"', "X-Resource-Version": "40", "X-Request-ID": "mine"}

    async with serving_widgets(widgets) as client:
        response = await client.delete("/api/v1/widgets/a", headers=headers)

    (call,) = widgets.calls
    assert (response.status, response.headers["X-Request-ID"]) == (204, "mine")
    assert (call.if_match, call.at_least, call.request_id) == ("41", "40", "mine")
    assert call.operation_id == response.headers["Idempotency-Key"] != ""


async def test_a_delete_takes_its_operation_id_from_the_header_or_the_query() -> None:
    widgets = Widgets()
    operator, key = bearer("operator"), {"Idempotency-Key": "op-2"}

    async with serving_widgets(widgets) as client:
        by_query = await client.delete("/api/v1/widgets/a?operationID=op-1", headers=operator)
        by_header = await client.delete("/api/v1/widgets/a", headers={**operator, **key})
        by_both = await client.delete("/api/v1/widgets/a?operationID=op-2", headers={**operator, **key})

    assert [answer.status for answer in (by_query, by_header, by_both)] == [204, 204, 204]
    assert [call.operation_id for call in widgets.calls] == ["op-1", "op-2", "op-2"]
    assert by_query.headers["Idempotency-Key"] == "op-1"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("operationID=op-1", "Idempotency-Key"),
        ("operationID=op-2&operationID=op-2", "2 times"),
        ("operationID=", "1 to 253"),
    ],
)
async def test_a_delete_with_contradictory_or_malformed_operation_ids_is_rejected(query: str, named: str) -> None:
    widgets = Widgets()
    headers = {**bearer("operator"), "Idempotency-Key": "op-2"}

    async with serving_widgets(widgets) as client:
        rejected = await client.delete(f"/api/v1/widgets/a?{query}", headers=headers)
        error = (await rejected.json())["error"]

    assert (rejected.status, widgets.calls) == (400, [])
    assert error["message"].startswith("?operationID: ")
    assert named in error["message"]


@pytest.mark.parametrize("body", [b'{"operationID": "op-1"}', b"{}", b"\xff"])
async def test_a_delete_with_a_body_is_rejected_and_the_error_says_where_the_operation_id_goes(body: bytes) -> None:
    async with serving_widgets(Widgets()) as client:
        rejected = await client.delete("/api/v1/widgets/a", data=body, headers=bearer("operator"))
        empty = await client.delete("/api/v1/widgets/a", data=b"", headers=bearer("operator"))

        assert (rejected.status, empty.status) == (400, 204)
        message = (await rejected.json())["error"]["message"]
        assert all(named in message for named in ("$: ", "header Idempotency-Key", "query parameter operationID"))


async def test_only_a_delete_takes_its_operation_id_from_the_query() -> None:
    async with serving_widgets(Widgets()) as client:
        made = await client.post("/api/v1/widgets?operationID=op-1", json=CREATE, headers=bearer("write"))

    assert made.status == 400


@pytest.mark.parametrize("error", [UnavailableError("cut off", outcome_unknown=True), ObjectNotFoundError("none")])
async def test_an_error_of_a_write_has_the_operation_id_for_the_retry(error: Exception) -> None:
    widgets = Widgets()
    widgets.error = error

    async with serving_widgets(widgets) as client:
        made = await client.delete("/api/v1/widgets/a", headers=bearer("operator"))
        given = await client.post("/api/v1/widgets", json=CREATE, headers=bearer("write"))
        wrong = await client.post("/api/v1/widgets", json={"operationID": "op-2"}, headers=bearer("write"))

    assert made.headers["Idempotency-Key"] == widgets.calls[0].operation_id != ""
    assert (given.headers["Idempotency-Key"], wrong.headers["Idempotency-Key"]) == ("op-1", "op-2")


async def test_an_error_has_no_operation_id_if_none_is_known() -> None:
    async with serving_widgets(Widgets()) as client:
        anonymous = await client.post("/api/v1/widgets", json=CREATE)
        read = await client.get("/api/v1/widgets?limit=0", headers=bearer("read"))
        without = await client.post("/api/v1/widgets", json={"name": "a"}, headers=bearer("write"))

    assert (anonymous.status, read.status, without.status) == (401, 400, 400)
    assert not any("Idempotency-Key" in answer.headers for answer in (anonymous, read, without))


async def test_if_match_counts_only_where_one_object_is_written() -> None:
    weak = {"If-Match": 'W/"7"'}

    async with serving_widgets(Widgets()) as client:
        read = await client.get("/api/v1/widgets/a", headers={**bearer("read"), **weak})
        made = await client.post("/api/v1/widgets", json=CREATE, headers={**bearer("write"), **weak})
        gone = await client.delete("/api/v1/widgets/a", headers={**bearer("operator"), **weak})

    assert (read.status, made.status, gone.status) == (200, 201, 412)


async def test_an_escaped_slash_is_part_of_a_path_parameter() -> None:
    widgets = Widgets()

    async with serving_widgets(widgets) as client:
        response = await client.get(URL("/api/v1/widgets/a%2Fb", encoded=True), headers=bearer("read"))

    assert (response.status, widgets.calls[0].path_params["name"]) == (200, "a/b")


@pytest.mark.parametrize("name", ["a%0Ab", "%C3%A9", "x" * 254])
async def test_a_path_parameter_that_cannot_be_a_name_is_404(name: str) -> None:
    widgets = Widgets()

    async with serving_widgets(widgets) as client:
        response = await client.get(URL(f"/api/v1/widgets/{name}", encoded=True), headers=bearer("read"))
        error = (await response.json())["error"]

    assert (response.status, error["code"], widgets.calls) == (404, "widget_not_found", [])


async def test_every_write_is_in_the_audit_log_and_no_read_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gpuruntime.audit")

    async with serving_widgets(Widgets()) as client:
        await client.get("/api/v1/widgets", headers=bearer("read"))
        await client.post("/api/v1/widgets", json=CREATE, headers={**bearer("write"), "X-Request-ID": "one"})
        await client.post("/api/v1/widgets", json=CREATE, headers=bearer("read"))
        await client.post("/api/v1/widgets", json=CREATE)

    lines = [vars(record) for record in caplog.records if record.name == "gpuruntime.audit"]
    assert [(line["caller"], line["status"], line["operation_id"]) for line in lines] == [
        ("the-write", 201, "op-1"),
        ("the-read", 403, ""),
        ("", 401, ""),
    ]
    assert (lines[0]["request_id"], lines[0]["path"], lines[1]["code"]) == ("one", "/api/v1/widgets", "forbidden")
