"""The programs on the pages of docs/.

A Python block that begins with a comment like `# test_cache.py` is a file of its page; the other Python blocks of a
page are one program, in their order.
"""

import re
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^(?P<ticks>```+)(?P<kind>\S*)[^\n]*\n(?P<body>.*?)^(?P=ticks)$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (?P<name>\w+\.py)\n")


@frozen
class Page:
    """A page: its name, and its fenced blocks as pairs of kind and body."""

    name: str
    fences: tuple[tuple[str, str], ...]

    def of(self, kind: str) -> list[str]:
        return [body for known, body in self.fences if known == kind]

    @property
    def files(self) -> dict[str, str]:
        found = {body: FILE.match(body) for body in self.of("python")}
        return {match["name"]: body for body, match in found.items() if match}

    @property
    def program(self) -> str:
        return "\n\n".join(body for body in self.of("python") if FILE.match(body) is None)

    def lay_out(self, directory: Path) -> Path:
        """Write the files of the page into a new sub-directory."""
        folder = directory / self.name.replace("-", "_")
        folder.mkdir()
        for name, body in self.files.items():
            (folder / name).write_text(body)
        if self.program:
            (folder / "program.py").write_text(self.program)
        return folder


def read_page(path: Path) -> Page:
    fences = FENCE.finditer(path.read_text())
    return Page(path.stem, tuple((fence["kind"], fence["body"]) for fence in fences))


PAGES = {path.stem: read_page(path) for path in sorted([*DOCS.glob("*.md"), *DOCS.glob("concepts/*.md")])}
