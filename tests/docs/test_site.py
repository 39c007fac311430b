"""The site builds without warnings, works offline, and is served."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from hack.dev.docs_site import foreign_resources
from tests.docs.once_per_run import once_per_run
from tests.docs.pages import PAGES, ROOT

COMMAND = [sys.executable, "-m", "hack.dev.docs_site"]
SVG = "{http://www.w3.org/2000/svg}"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The site, as `./hack/docs build --strict` builds it."""
    return once_per_run(tmp_path_factory, worker_id, "built-site", build_site) / "html"


def build_site(directory: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "build", "--strict", "--out", directory / "html"],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_page_is_built_and_loads_nothing_from_the_network(site: Path) -> None:
    built = {page.stem for page in site.rglob("*.html")}

    assert set(PAGES) - built == set()
    assert foreign_resources(site) == []


def test_the_reference_has_the_docstrings_of_every_public_package(site: Path) -> None:
    for package, name in (("control", "Manager"), ("kube", "Client"), ("meta", "Struct"), ("testing", "LocalCluster")):
        page = (site / "reference" / f"{package}.html").read_text()
        assert f'id="gpuruntime.{package}.{name}"' in page


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://cdn.example.org/x.js">',
        '<link href="//fonts.example.org/a.css">',
        '<img src="http://e/i">',
    ],
)
def test_a_resource_from_the_network_is_found(page: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f'<a href="https://example.org/">fine</a>{page}')

    assert len(foreign_resources(tmp_path)) == 1


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "pictures").rglob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_is_valid_has_dark_colors_and_an_alternative_text(picture: Path) -> None:
    drawing = ET.fromstring(picture.read_text())  # noqa: S314 - our own file

    words = [node.text for node in drawing if node.tag in {f"{SVG}title", f"{SVG}desc"}]
    style = drawing.findtext(f"{SVG}style") or ""

    assert len(words) == 2
    assert "prefers-color-scheme: dark" in style
    assert not re.search(r"(href|src|url)\W+https?:", picture.read_text())


def test_serving_prints_the_address_and_ends_with_ctrl_c(site: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "serve", "--out", site], cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        built, served = server.stdout.readline(), server.stdout.readline()
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/", served)
        with urllib.request.urlopen(address) as answer:  # noqa: S310 - on this machine, printed by our own command
            page = answer.read().decode()
        server.send_signal(signal.SIGINT)

    assert "site is in" in built
    assert "<title>gpuruntime" in page
    assert server.returncode == 0
