"""A client generator accepts the OpenAPI document."""

import re

import orjson
import pytest

from hack.generators.client_generation import GeneratedClient, generate_client
from hack.generators.openapi import DOCUMENT, ROOT

PROGRAM = ROOT / "e2e" / "stories" / "client_program.py"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> GeneratedClient:
    return generate_client(DOCUMENT, tmp_path_factory.mktemp("generated"))


def test_a_client_with_every_route_is_generated_without_a_warning(client: GeneratedClient) -> None:
    paths = orjson.loads(DOCUMENT.read_bytes())["paths"]
    named = {operation["operationId"] for methods in paths.values() for operation in methods.values()}

    assert re.fullmatch(r"Generating \S+\n", client.output), client.output
    assert client.functions() == {snake_case(name) for name in named}


def test_the_client_and_a_program_that_uses_it_pass_mypy_strict(client: GeneratedClient) -> None:
    assert client.type_errors(PROGRAM) == ""


def test_no_name_in_the_client_is_derived_from_the_location_of_a_schema(client: GeneratedClient) -> None:
    models = {path.stem for path in client.directory.glob("*/models/*.py")}

    assert {name for name in models if len(name) > 40 or re.search(r"_type_\d|_item$|_response_\d", name)} == set()


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
