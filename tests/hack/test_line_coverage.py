"""The report of `hack/coverage`."""

from typing import Any

from hack.line_coverage import report


def counts(covered: int, of: int) -> dict[str, int]:
    return {"covered_lines": covered, "missing_lines": of - covered, "num_statements": of}


def test_the_report_has_the_files_with_the_most_lines_that_did_not_run_and_the_total() -> None:
    files = {"empty.py": counts(0, 0), "good.py": counts(9, 10), "worst.py": counts(10, 40), "bad.py": counts(1, 4)}
    document: dict[str, Any] = {
        "files": {name: {"summary": summary} for name, summary in files.items()},
        "totals": counts(20, 54),
    }

    rows = [line.split() for line in report(document, worst=2).splitlines()[1:]]

    assert rows == [
        ["25.00%", "30", "40", "worst.py"],
        ["25.00%", "3", "4", "bad.py"],
        ["37.04%", "34", "54", "all", "4", "files"],
    ]
