"""A change is a break if it can fail an existing client."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from gpuruntime.web.openapi.document import openapi_document
from hack.generators.openapi_changes import breaking_changes
from tests.endpoints.endpoint_scenes import Widgets

DOCUMENT = openapi_document(Widgets().routes())
Change = Callable[[dict[str, Any]], Any]


def changed(change: Change) -> dict[str, Any]:
    document = deepcopy(DOCUMENT)
    change(document)
    return document


def body(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"]["WidgetBody"]
    return found


def part(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"]["PartInput"]
    return found


def view(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"]["WidgetView"]
    return found


def listing(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["paths"]["/widgets"]["get"]
    return found


BREAKS: dict[str, Change] = {
    "GET /widgets/{name} is gone": lambda new: new["paths"].pop("/widgets/{name}"),
    "POST /widgets is gone": lambda new: new["paths"]["/widgets"].pop("post"),
    "GET /widgets needs scope operator, was read": lambda new: listing(new).update({"x-scope": "operator"}),
    "GET /widgets no longer takes query limit": lambda new: listing(new)["parameters"].pop(0),
    "GET /widgets requires query limit": lambda new: listing(new)["parameters"][0].update(required=True),
    "GET /widgets query limit has maximum 50, was 100": lambda new: listing(new)["parameters"][0]["schema"].update(
        maximum=50
    ),
    "GET /widgets no longer answers 200": lambda new: listing(new)["responses"].pop("200"),
    "POST /widgets body.size is no longer taken": lambda new: body(new)["properties"].pop("size"),
    "POST /widgets body.size is required": lambda new: body(new)["required"].append("size"),
    "POST /widgets body.size can no longer be null": lambda new: body(new)["properties"]["size"].update(type="integer"),
    "POST /widgets body.size has minimum 2, was 1": lambda new: body(new)["properties"]["size"].update(minimum=2),
    "POST /widgets body.name has pattern ^a, was none": lambda new: body(new)["properties"]["name"].update(
        pattern="^a"
    ),
    "POST /widgets body.name can no longer be 'anything else'": lambda new: body(new)["properties"]["name"].update(
        enum=["a"]
    ),
    "POST /widgets body.parts[].name has maxLength 5, was 10": lambda new: part(new)["properties"]["name"].update(
        maxLength=5
    ),
    "POST /widgets body.spare.name has maxLength 5, was 10": lambda new: part(new)["properties"]["name"].update(
        maxLength=5
    ),
    "POST /widgets body.spare can no longer be null": lambda new: body(new)["properties"]["spare"]["anyOf"].pop(),
    "GET /widgets 200.data[].size is gone": lambda new: view(new)["properties"].pop("size"),
    "GET /widgets 200.data[].size is not always there any more": lambda new: view(new)["required"].remove("size"),
    "GET /widgets 200.data[].size can be string now": lambda new: view(new)["properties"]["size"].update(type="string"),
    "POST /widgets body is no longer taken": lambda new: new["paths"]["/widgets"]["post"].pop("requestBody"),
    "DELETE /widgets/{name} body is required": lambda new: new["paths"]["/widgets/{name}"]["delete"].update(
        requestBody={"required": True, "content": {}}
    ),
}


@pytest.mark.parametrize("sentence", BREAKS)
def test_a_break_is_described_in_one_sentence(sentence: str) -> None:
    assert sentence in breaking_changes(DOCUMENT, changed(BREAKS[sentence]))


@pytest.mark.parametrize(
    "change",
    [
        lambda _new: None,
        lambda new: new["paths"].update({"/new": {}}),
        lambda new: body(new)["properties"].update(color={"type": ["string", "null"]}),
        lambda new: body(new)["required"].remove("name"),
        lambda new: body(new)["properties"]["size"].update(maximum=9),
        lambda new: body(new)["properties"]["size"].pop("minimum"),
        lambda new: view(new)["properties"].update(color={"type": "string"}),
        lambda new: view(new)["required"].append("color"),
        lambda new: listing(new).update({"description": "Other words."}),
        lambda new: listing(new)["parameters"].append({"in": "query", "name": "x", "required": False, "schema": {}}),
        lambda new: listing(new)["responses"].pop("503"),
    ],
)
def test_a_change_that_accepts_or_returns_more_is_not_a_break(change: Change) -> None:
    assert breaking_changes(DOCUMENT, changed(change)) == ()
