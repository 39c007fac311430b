"""The report of `hack/coverage`: the share of lines that the tests ran, in total and of the worst files."""

import json
import sys
from pathlib import Path
from typing import Any, Final

__all__ = ["report"]

_WORST: Final = 15


def report(document: dict[str, Any], worst: int = _WORST) -> str:
    """A table of the files with the most lines that no test ran, then the total, from a JSON report of coverage."""
    files = {path: found["summary"] for path, found in document["files"].items()}
    chosen = sorted(files.items(), key=lambda item: item[1]["missing_lines"], reverse=True)[:worst]
    lines = ["  covered  not run  of lines"]
    for name, summary in [*chosen, (f"all {len(files)} files", document["totals"])]:
        share = 100.0 * summary["covered_lines"] / max(1, summary["num_statements"])
        lines.append(f"{share:8.2f}% {summary['missing_lines']:8} {summary['num_statements']:9}  {name}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(json.loads(Path(sys.argv[1]).read_text())))
