"""Swagger UI is served from the package."""

import json
import re
from pathlib import Path

import gpuruntime.web.openapi.swagger_ui
from gpuruntime.web.openapi.document import openapi_document
from tests.endpoints.endpoint_scenes import Widgets, serving_widgets

FILES = Path(gpuruntime.web.openapi.swagger_ui.__file__).parent / "swagger"


async def test_swagger_ui_is_served_from_the_package_without_credentials() -> None:
    async with serving_widgets(Widgets()) as client:
        page = await client.get("/swagger/index.html")
        names = re.findall(r'(?:src|href)="\./([^"]+)"', await page.text())
        loaded = [await client.get(f"/swagger/{name}") for name in names]

        assert page.content_type == "text/html"
        assert "swagger-ui-bundle.js" in names
        assert [answer.status for answer in loaded] == [200] * len(names)
        assert "default-src 'self'" in page.headers["Content-Security-Policy"]


def test_swagger_ui_refers_to_no_other_host() -> None:
    own = [(FILES / name).read_text() for name in ("index.html", "start.js")]

    assert not any("://" in text for text in own)
    assert 'url: "../api/v1/openapi.json"' in own[1]


async def test_the_served_document_describes_the_served_routes() -> None:
    async with serving_widgets(Widgets()) as client:
        response = await client.get("/api/v1/openapi.json")
        document = await response.json()

    assert response.content_type == "application/json"
    assert document == json.loads(json.dumps(openapi_document(Widgets().routes())))


def test_version_and_licence_of_swagger_ui_are_in_the_package() -> None:
    package = json.loads((FILES / "package.json").read_text())

    assert (package["name"], package["license"]) == ("swagger-ui-dist", "Apache-2.0")
    assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
    assert "Apache License" in (FILES / "LICENSE").read_text()
