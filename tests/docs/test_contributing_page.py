"""docs/contributing.md names files and commands that exist."""

import re

from tests.docs.pages import DOCS, ROOT

PAGE = (DOCS / "contributing.md").read_text()


def test_every_path_on_the_page_exists() -> None:
    paths = set(re.findall(r"`((?:gpuruntime|tests|hack|docs|manifests)/[\w./-]+)`", PAGE))

    missing = [path for path in sorted(paths) if not (ROOT / path).exists()]

    assert len(paths) >= 15
    assert missing == []


def test_every_command_of_hack_is_on_the_page() -> None:
    commands = {path.name for path in (ROOT / "hack").iterdir() if path.is_file() and not path.suffix}

    unknown = [name for name in sorted(commands) if f"hack/{name}" not in PAGE]

    assert unknown == []
