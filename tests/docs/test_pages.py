"""Every snippet of the documentation runs where only our wheel is installed."""

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Page
from tests.docs.wheel_environment import WheelEnvironment

# Blocks that are not run: pictures, terminal output, and directives of the site.
READ = {"text", "{toctree}", "{literalinclude}"}
# Pages whose shell blocks are run: see test_quickstart_page.py, test_operating_page.py, e2e/test_walkthrough_docs.py
# and, for those of kind bash, e2e/test_real_node.py.
STORIES = {
    "quickstart": {"sh"},
    "api": {"sh"},
    "operating": {"sh"},
    "storage": {"sh", "bash"},
    "functions": {"sh", "bash"},
}
PROGRAMS = [page for page in PAGES.values() if page.program]


def name_of(page: Page) -> str:
    return page.name


@pytest.mark.parametrize("page", PAGES.values(), ids=name_of)
def test_every_block_is_run_or_is_of_a_kind_that_is_only_shown(page: Page) -> None:
    kinds = {kind for kind, _ in page.fences}
    tests = "".join(body for name, body in page.files.items() if name.startswith("test_"))
    programs = [name for name in page.files if not name.startswith("test_")]

    assert kinds <= READ | {"python"} | STORIES.get(page.name, set())
    assert all(Path(name).stem in tests for name in programs)


def test_file_names_are_unique_across_pages() -> None:
    names = [name for page in PAGES.values() for name in page.files]

    assert len(names) == len(set(names))


@pytest.mark.parametrize("page", PROGRAMS, ids=name_of)
def test_the_program_of_a_page_runs(page: Page, wheel: WheelEnvironment, tmp_path: Path) -> None:
    folder = page.lay_out(tmp_path)

    done = wheel.run([wheel.python, "-W", "error", "program.py"], folder)

    assert (done.returncode, done.stderr) == (0, "")


def test_every_test_on_the_pages_passes(wheel: WheelEnvironment, tmp_path: Path) -> None:
    for page in PAGES.values():
        page.lay_out(tmp_path)
    tests = [body for page in PAGES.values() for name, body in page.files.items() if name.startswith("test_")]
    count = sum(node.name.startswith("test_") for body in tests for node in functions(body))

    done = wheel.run([wheel.python, "-m", "pytest", "-q", "-W", "error"], tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    # Without root, a test that needs a real node is skipped.
    outcomes = re.findall(r"(\d+) (?:passed|skipped)", done.stdout)
    assert sum(map(int, outcomes)) == count


def functions(code: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
