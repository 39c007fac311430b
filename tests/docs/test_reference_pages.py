"""The reference pages list exactly the public surface."""

import re
from pathlib import Path

import pytest

from hack.generators.surface import LISTING
from tests.docs.pages import DOCS

REFERENCE = sorted((DOCS / "reference").glob("*.md"))
ENTRY = re.compile(r"    (?:class |async def |def )?(\w+)")


def listed() -> dict[str, set[str]]:
    """The names of each module in the listing, which is itself compared with the source."""
    names: dict[str, set[str]] = {}
    module = ""
    for line in LISTING.read_text().splitlines():
        entry = ENTRY.match(line)
        if line.startswith("gpuruntime"):
            module = line
        elif entry is not None:
            names.setdefault(module, set()).add(entry[1])
    return names


def stem(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("page", REFERENCE, ids=stem)
def test_a_page_lists_exactly_the_exports_of_its_modules(page: Path) -> None:
    text = page.read_text()
    rows = [line.split(" | ", 1)[1] for line in text.splitlines() if line.startswith("| ") and " | `" in line]

    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    modules = re.findall(r"automodule:: (\S+)", text)

    assert sorted(named) == sorted(name for module in modules for name in listed()[module])


def test_every_public_module_has_a_page() -> None:
    described = {name for page in REFERENCE for name in re.findall(r"automodule:: (\S+)", page.read_text())}

    assert described == set(listed())
