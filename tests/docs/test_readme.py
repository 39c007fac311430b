"""README.md: its links lead somewhere, and its figures are those of the pages.

e2e/test_readme.py runs its commands, and test_wheel.py type-checks its operator.
"""

import re
from collections.abc import Container

import pytest

from hack.benchmarks import api_bench, operator_bench
from hack.benchmarks.scenario import load_scenarios
from tests.docs.pages import DOCS, ROOT

TEXT = (ROOT / "README.md").read_text()
SCENARIOS: dict[str, Container[str]] = {
    "library": load_scenarios(),
    "operator": operator_bench.SCENARIOS,
    "api": api_bench.SCENARIOS,
}
FIGURE = re.compile(r"\d+(?:\.\d+)? (?:MB|ms|s|times|%)")


def table_after(heading: str) -> list[str]:
    """The rows of the table with this heading in its first column."""
    lines = TEXT[TEXT.index(f"| {heading} |") :].splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("|"))
    return lines[2:end]


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_every_link_leads_to_a_file_of_the_repository(page: str) -> None:
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text())]
    files = {target for target in targets if target and "://" not in target}

    missing = sorted(target for target in files if not (ROOT / target).exists())

    assert missing == []


def test_every_bench_command_names_a_scenario() -> None:
    commands = re.findall(r"`\./hack/bench (\w+) --only ([\w-]+)`", TEXT)

    unknown = [command for command in commands if command[1] not in SCENARIOS[command[0]]]

    assert len(commands) >= 6
    assert unknown == []


@pytest.mark.parametrize(
    ("reader", "page"), [("for a platform engineer", "operating"), ("for an operator author", "comparison")]
)
def test_each_reader_has_three_figures_and_they_are_those_of_the_page(reader: str, page: str) -> None:
    rows = table_after(reader)

    known = (DOCS / f"{page}.md").read_text()
    figures = {figure for row in rows for figure in FIGURE.findall(row)}

    assert len(rows) == 3
    assert {figure for figure in figures if figure not in known} == set()
