"""What the page says that the log and the metrics show is what they show."""

import re
from pathlib import Path

from tests.docs.pages import DOCS, ROOT

PAGE = (DOCS / "troubleshooting.md").read_text()
QUOTED = re.findall(r"`([^`\n]+)`", PAGE)


def sources() -> str:
    return "".join(path.read_text() for path in sorted(Path(ROOT / "gpuruntime").rglob("*.py")))


def test_every_log_line_that_is_quoted_is_one_of_ours() -> None:
    sentences = {text for text in QUOTED if re.fullmatch(r"[a-z]+(,? [a-z]+){2,}", text)}
    known = sources()

    unknown = [sentence for sentence in sentences if f'"{sentence}"' not in known]

    assert len(sentences) >= 8
    assert unknown == []


def test_every_metric_that_is_named_is_documented() -> None:
    metrics = (DOCS / "metrics.md").read_text()

    names = set(re.findall(r"(?:gpuruntime|controller_runtime|rest_client|leader_election)_[a-z_]+", PAGE))

    assert [name for name in sorted(names) if f"`{name}`" not in metrics] == []
