"""The log lines and metrics that pages quote exist."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

PAGES = ("troubleshooting", "operating")


def sources() -> str:
    return "".join(path.read_text() for path in sorted(Path(ROOT / "gpuruntime").rglob("*.py")))


@pytest.mark.parametrize(("page", "fewest"), [("troubleshooting", 8), ("operating", 2)])
def test_every_log_line_that_a_page_quotes_is_logged_by_the_source(page: str, fewest: int) -> None:
    quoted = re.findall(r"`([^`\n]+)`", (DOCS / f"{page}.md").read_text())
    sentences = {text for text in quoted if re.fullmatch(r"[a-z]+(,? [a-z]+){2,}", text)}
    known = sources()

    unknown = [sentence for sentence in sentences if f'"{sentence}"' not in known]

    assert len(sentences) >= fewest
    assert unknown == []


@pytest.mark.parametrize("page", PAGES)
def test_every_metric_that_a_page_names_is_documented(page: str) -> None:
    metrics = (DOCS / "metrics.md").read_text()

    text = (DOCS / f"{page}.md").read_text()
    names = set(re.findall(r"(?:gpuruntime|controller_runtime|rest_client|leader_election)_[a-z_]+", text))

    documented = set(re.findall(r"`(\w+)`", metrics))
    assert {name for name in names if not {name, name.removesuffix("_count")} & documented} == set()
