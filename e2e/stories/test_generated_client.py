"""A developer generates a client from the OpenAPI document of the API, and uses it."""

import json
from pathlib import Path

from e2e.installation import Installation
from hack.generators.client_generation import generate_client

PROGRAM = Path(__file__).with_name("client_program.py")


def test_a_generated_client_seeds_stock_claims_updates_waits_for_and_deletes_a_unit(
    installation: Installation, suffix: str, tmp_path: Path
) -> None:
    served = tmp_path / "openapi.json"
    served.write_text(json.dumps(installation.api.get("/openapi.json").body))
    client = generate_client(served, tmp_path)

    done = client.run(PROGRAM, installation.api.url, installation.api.token, suffix)

    assert done.returncode == 0, done.stderr
