"""A pytest plugin for `hack/test`: the end of a run has one line per reason for which tests were skipped."""

from collections import Counter
from collections.abc import Iterable

import pytest

__all__ = ["pytest_terminal_summary", "skip_lines"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("skipped")
        for line in skip_lines(report.longrepr[2] for report in skipped):
            terminalreporter.line(line)


def skip_lines(reasons: Iterable[str]) -> list[str]:
    """One line per reason with its number of tests, the most frequent first."""
    counts = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    return [f"{count} {'test' if count == 1 else 'tests'}: {reason}" for reason, count in counts.most_common()]
