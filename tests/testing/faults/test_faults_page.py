"""The examples of docs/faults.md work."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_every_test_on_the_page_passes(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n# (test_\w+\.py)\n(.*?)```", (ROOT / "docs" / "faults.md").read_text(), re.DOTALL)
    for name, code in blocks:
        (tmp_path / name).write_text(code)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert len(blocks) == 2
    assert "2 passed" in done.stdout, done.stdout + done.stderr
