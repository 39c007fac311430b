"""The OpenAPI document describes what endpoints do."""

from typing import Any

import pytest
from attrs import evolve

from gpuruntime.endpoints.server.route import Response
from gpuruntime.web.openapi.document import openapi_document
from tests.endpoints.endpoint_scenes import Part, WidgetBody, Widgets, WidgetView, bearer, serving_widgets

DOCUMENT = openapi_document(Widgets().routes())
CHANGED = {"changed": WidgetView}


def operation(method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][path][method]
    return found


def test_every_route_is_described_with_its_scope() -> None:
    described = {
        (path, method): one["x-scope"] for path, methods in DOCUMENT["paths"].items() for method, one in methods.items()
    }

    assert described[("/widgets", "post")] == "write"
    assert set(described) == {(route.path, route.method.lower()) for route in Widgets().routes()}
    assert operation("get", "/widgets")["description"] == "List all widgets.\n\nScope: read."
    assert operation("get", "/widgets/{name}")["operationId"] == "getWidget"


def test_bodies_are_closed_and_take_an_operation_id() -> None:
    schema = DOCUMENT["components"]["schemas"]["WidgetBody"]

    assert schema["additionalProperties"] is False
    assert schema["required"] == ["name"]
    assert schema["properties"]["operationID"]["maxLength"] == 253
    assert schema["properties"]["size"] == {
        "description": "Its size.",
        "type": ["integer", "null"],
        "format": "int64",
        "minimum": 1,
        "maximum": 8,
        "default": 1,
    }
    assert DOCUMENT["components"]["schemas"]["PartInput"]["additionalProperties"] is False


def test_schemas_have_no_kubernetes_extensions() -> None:
    assert "x-kubernetes" not in str(DOCUMENT)
    assert "nullable" not in str(DOCUMENT)


def test_responses_are_in_the_envelope() -> None:
    responses = operation("get", "/widgets")["responses"]

    assert responses["200"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/WidgetViewListResponse"
    }
    schema = DOCUMENT["components"]["schemas"]["WidgetViewListResponse"]
    assert schema["required"] == ["data"]
    assert schema["properties"]["data"] == {"type": "array", "items": {"$ref": "#/components/schemas/WidgetView"}}
    assert "next" in schema["properties"]
    assert DOCUMENT["components"]["schemas"]["WidgetView"]["required"] == ["name", "size"]


def test_default_errors_and_errors_of_the_route_are_described() -> None:
    responses = operation("delete", "/widgets/{name}")["responses"]

    assert set(responses) == {
        *("204", "400", "401", "403", "404", "409", "412", "500", "503", "504"),
    }
    assert {"408", "413", "415"} < set(operation("post", "/widgets")["responses"])
    assert responses["404"]["description"] == "The object does not exist: `widget_not_found`."
    assert responses["503"] == {"$ref": "#/components/responses/service_unavailable"}
    assert "Retry-After" in DOCUMENT["components"]["responses"]["service_unavailable"]["headers"]


def test_parameters_are_described_by_location() -> None:
    locations = {
        (method, parameter["in"], parameter["name"])
        for method in ("get", "delete")
        for parameter in operation(method, "/widgets/{name}")["parameters"]
    }
    (limit, *_) = operation("get", "/widgets")["parameters"]

    assert locations == {
        ("get", "path", "name"),
        ("get", "header", "X-Resource-Version"),
        ("delete", "path", "name"),
        ("delete", "query", "operationID"),
        ("delete", "header", "Idempotency-Key"),
        ("delete", "header", "If-Match"),
    }
    assert (limit["description"], limit["schema"]["maximum"]) == ("Maximum number.", 100)


def test_two_responses_of_one_status_are_described_as_one_with_two_media_types() -> None:
    listing, *_ = Widgets().routes()
    live = Response(200, None, "Changes as they happen.", events=CHANGED, event_schema="WidgetWatchEvent")

    document = openapi_document([evolve(listing, responses=(*listing.responses, live))])

    response = document["paths"]["/widgets"]["get"]["responses"]["200"]
    assert set(response["content"]) == {"application/json", "text/event-stream"}
    assert response["description"] == "The widgets. Changes as they happen."


def test_the_events_of_a_stream_have_schemas() -> None:
    _, _, getting, *_ = Widgets().routes()
    events = {"added": WidgetView, "removed": WidgetView, "moved": Part}
    live = Response(200, None, "Changes as they happen.", events=events, event_schema="WidgetWatchEvent")
    watching = evolve(getting, responses=(live,))

    document = openapi_document([watching])

    operation, schemas = document["paths"]["/widgets/{name}"]["get"], document["components"]["schemas"]
    stream = operation["responses"]["200"]["content"]["text/event-stream"]["schema"]
    assert (stream["type"], stream["contentMediaType"]) == ("string", "text/event-stream")
    assert stream["contentSchema"] == {"type": "array", "items": {"$ref": "#/components/schemas/WidgetWatchEvent"}}
    assert schemas["WidgetWatchEvent"]["discriminator"]["mapping"] == {
        "added": "#/components/schemas/WidgetViewEvent",
        "removed": "#/components/schemas/WidgetViewEvent",
        "moved": "#/components/schemas/PartEvent",
    }
    assert schemas["WidgetViewEvent"]["properties"]["event"]["enum"] == ["added", "removed"]
    assert schemas["PartEvent"]["properties"]["data"]["contentSchema"] == {"$ref": "#/components/schemas/Part"}
    assert "Last-Event-ID" in {parameter["name"] for parameter in operation["parameters"]}


def test_a_stream_without_a_name_for_the_schema_of_its_events_is_refused() -> None:
    _, _, getting, *_ = Widgets().routes()
    unnamed = Response(200, None, "Changes as they happen.", events=CHANGED)

    with pytest.raises(ValueError, match="changed has event_schema ''"):
        openapi_document([evolve(getting, responses=(unnamed,))])


def test_a_nested_type_of_a_request_has_no_default_that_a_client_would_send_with_an_update() -> None:
    schemas = DOCUMENT["components"]["schemas"]

    assert "default" not in schemas["PartInput"]["properties"]["color"]
    assert schemas["PartInput"]["properties"]["color"]["description"] == 'Its color. New objects default to "red".'
    assert "default" not in schemas["WidgetBody"]["properties"]["lid"]


def test_a_map_is_a_component() -> None:
    schemas = DOCUMENT["components"]["schemas"]

    assert schemas["WidgetBody"]["properties"]["marks"] == {
        "description": "Its marks.",
        "anyOf": [{"$ref": "#/components/schemas/MarksInput"}, {"type": "null"}],
    }
    assert schemas["MarksInput"] == {"type": "object", "additionalProperties": {"type": "string"}}


def test_names_of_types_and_routes_are_unique() -> None:
    _, creating, *_ = Widgets().routes()

    with pytest.raises(ValueError, match="WidgetBody"):
        openapi_document([evolve(creating, responses=(Response(201, WidgetBody, "Its own body."),))])
    with pytest.raises(ValueError, match="POST /widgets"):
        openapi_document([creating, creating])
    with pytest.raises(ValueError, match="createWidget"):
        openapi_document([creating, evolve(creating, path="/other-widgets")])


def test_a_route_that_shows_one_object_has_a_304_response() -> None:
    _, _, getting, *_ = Widgets().routes()
    waiting = evolve(getting, path="/widgets/{name}/wait", name="waitForWidget")
    live = Response(200, None, "Changes as they happen.", events=CHANGED, event_schema="WidgetWatchEvent")
    watching = evolve(getting, path="/widgets/{name}/watch", name="watchWidget", responses=(live,))

    paths = openapi_document([*Widgets().routes(), waiting, watching])["paths"]

    found = {path for path, methods in paths.items() if "304" in methods.get("get", {"responses": {}})["responses"]}
    assert found == {"/widgets/{name}", "/widgets/{name}/wait"}


def test_a_temporary_error_has_the_headers_for_a_retry() -> None:
    headers = DOCUMENT["components"]["responses"]["service_unavailable"]["headers"]

    assert set(headers) == {"Retry-After", "Idempotency-Key"}
    assert set(operation("delete", "/widgets/{name}")["responses"]["504"]["headers"]) == set(headers)


async def test_every_status_that_a_caller_can_provoke_is_described() -> None:
    create = {"operationID": "op-1", "name": "a"}

    async with serving_widgets(Widgets()) as client:
        answers = [
            await client.post("/api/v1/widgets", json=create, headers=bearer("write")),
            await client.post("/api/v1/widgets", json={}, headers=bearer("write")),
            await client.post("/api/v1/widgets", json=create),
            await client.post("/api/v1/widgets", json=create, headers=bearer("read")),
            await client.post("/api/v1/widgets", data="x", headers={**bearer("write"), "Content-Type": "text/css"}),
        ]

    assert {str(answer.status) for answer in answers} == {"201", "400", "401", "403", "415"}
    assert {str(answer.status) for answer in answers} <= set(operation("post", "/widgets")["responses"])
