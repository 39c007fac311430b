"""Names, log messages, metrics, docstrings and pages use words that are understood on first reading."""

import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final

import pytest

from tests.house.words import INSTEAD, Finding, prose_findings, source_findings
from tests.programs import require_program

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = PurePath("tests/house")
SOURCES: Final = ("gpuruntime", "hack", "e2e", "tests", "examples")
PAGES: Final = ("README.md", "docs/*.md", "docs/**/*.md", "examples/**/*.md")

SOURCE: Final = '''"""Somebody reads this."""

import x as told


class Desk:
    """Fine.

    Whoever comes here is in the second paragraph, which may say so.
    """

    def __init__(self, homes, *crew, **wishes):
        """For so
        many callers."""
        self.shelf = homes
        log.info("nobody was told", extra={"told": 1})
        raise ValueError("data, which is nobody's name: told")


async def what_somebody_asks(data):
    try:
        places: int = 1
    except OSError as whoever:
        log.warning(f"so many as {places}")
    match data:
        case [*nowhere]:
            return lambda fight: [data for fights in nowhere]


CounterMetricFamily("writes_fights_total", "Signs of life.", labels=["told"])
prometheus_client.Gauge(name="g", documentation="Told by others.")
fine = "told", "somebody", obj.told, call(told=1), "totold", "untold", retold, so, many
'''
"""One violation of each kind, and what looks like one."""


def tracked(*patterns: str) -> list[PurePath]:
    """The files of the checkout that Git knows or would add, relative to its root."""
    command = [require_program("git"), "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listing = subprocess.check_output(command, cwd=ROOT, text=True)
    return [PurePath(line) for line in sorted(set(listing.splitlines())) if (ROOT / line).exists()]


def report(findings: Sequence[Finding]) -> str:
    return "\n".join([f"{len(findings)} words that a reader has to decode:", *map(str, findings)])


@pytest.mark.parametrize("directory", SOURCES)
def test_no_name_or_message_in_the_sources_has_a_banned_word(directory: str) -> None:
    files = [path for path in tracked(f"{directory}/*.py", f"{directory}/**/*.py") if path.parent != HERE]

    findings = [found for path in files for found in source_findings(path, (ROOT / path).read_text())]

    assert files
    assert findings == [], report(findings)


def test_no_page_of_the_documentation_has_a_banned_word() -> None:
    pages = tracked(*PAGES)

    findings = [found for path in pages for found in prose_findings(path, (ROOT / path).read_text())]

    assert PurePath("README.md") in pages
    assert PurePath("docs/glossary.md") in pages
    assert findings == [], report(findings)


def test_every_kind_of_holder_is_read_and_nothing_else() -> None:
    findings = source_findings(PurePath("tests/shelf/test_x.py"), SOURCE)

    assert sorted((found.line, found.holder, found.word) for found in findings) == [
        (1, "docstring", "somebody"),
        (1, "module name", "shelf"),
        (3, "name", "told"),
        (6, "name", "desk"),
        (12, "docstring", "so many"),
        (12, "name", "crew"),
        (12, "name", "homes"),
        (12, "name", "wishes"),
        (15, "name", "shelf"),
        (16, "log message", "told"),
        (20, "name", "somebody"),
        (22, "name", "places"),
        (23, "name", "whoever"),
        (24, "log message", "so many"),
        (26, "name", "nowhere"),
        (27, "name", "fight"),
        (27, "name", "fights"),
        (30, "metric", "fights"),
        (30, "metric", "signs of life"),
        (31, "metric", "told"),
    ]


def test_prose_is_read_and_code_is_not() -> None:
    prose = "# Homes\n\nThere are so\nmany `told` [links](told.md).\n\n"
    code = "```sh\ntold\n```\n\n    told\n\n"
    items = "- fine\n- told\n| fine |\n| told |"

    findings = prose_findings(PurePath("docs/page.md"), prose + code + items)

    assert [(found.line, found.word) for found in findings] == [
        (1, "homes"),
        (3, "so many"),
        (13, "told"),
        (15, "told"),
    ]


def test_a_finding_says_where_it_is_and_what_to_write_instead() -> None:
    (found,) = source_findings(PurePath("e2e/x.py"), "def was_told(): ...")

    assert str(found) == f"e2e/x.py:1: 'told' in a name, 'was told': {INSTEAD['told']}"
