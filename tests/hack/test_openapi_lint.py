"""The OpenAPI document passes Spectral."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest

from hack.generators.openapi import DOCUMENT
from hack.generators.openapi_lint import lint
from tests.programs import require_program


@pytest.fixture(autouse=True)
def npm() -> str:
    """Installs Spectral."""
    return require_program("npm")


def test_spectral_finds_nothing_in_the_document() -> None:
    assert lint(DOCUMENT) == ""


def test_spectral_rejects_a_request_body_of_every_delete_except_that_of_stocks(tmp_path: Path) -> None:
    document: dict[str, Any] = orjson.loads(DOCUMENT.read_bytes())
    of_stocks = document["paths"]["/stocks"]["delete"]["requestBody"]
    document["paths"]["/vms/{id}"]["delete"]["requestBody"] = deepcopy(of_stocks)
    changed = tmp_path / "openapi.json"
    changed.write_bytes(orjson.dumps(document))

    (found,) = (line for line in lint(changed).splitlines() if "delete-without-body" in line)

    assert "paths./vms/{id}.delete" in found
