"""Rules about the code that no linter has."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import require_program

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 600
TOP_LEVEL = {
    *(
        ".ci",
        ".github",
        ".gitignore",
        "CHANGELOG.md",
        "Dockerfile",
        ".dockerignore",
        "LICENSE",
        "README.md",
        "docs",
        "e2e",
    ),
    *("examples", "gpuruntime", "hack", "manifests", "pyproject.toml", "setup.cfg", "tests", "tox.ini"),
}
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}


def tracked() -> list[Path]:
    listing = subprocess.check_output(
        [require_program("git"), "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    )
    return [path for line in listing.splitlines() if (path := ROOT / line).exists()]


def python_files() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py"]


def package_files() -> list[Path]:
    return [path for path in python_files() if path.is_relative_to(ROOT / "gpuruntime")]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_top_level_has_only_the_expected_entries() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in tracked()} <= TOP_LEVEL


@pytest.mark.parametrize("path", python_files(), ids=name_of)
def test_a_file_has_at_most_600_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LIMIT


@pytest.mark.parametrize("path", package_files(), ids=name_of)
def test_a_module_has_a_specific_name_a_docstring_and_a_list_of_exports(path: Path) -> None:
    module = ast.parse(path.read_text())
    names = {
        target.id
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    assert path.stem not in VAGUE
    assert path.stem in {"__init__", "__main__"} or path.stem not in sys.stdlib_module_names
    assert ast.get_docstring(module)
    assert path.stem == "__init__" or "__all__" in names


@pytest.mark.parametrize("path", package_files(), ids=name_of)
def test_log_messages_are_constant_and_cancellation_is_never_swallowed(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and is_log_call(node):
            assert isinstance(node.args[0], ast.Constant), f"line {node.lineno}: put what varies into extra={{...}}"
        if isinstance(node, ast.ExceptHandler) and catches_cancellation(node):
            assert any(isinstance(inner, ast.Raise) for inner in ast.walk(node)), f"line {node.lineno}: raise it again"


def is_log_call(node: ast.Call) -> bool:
    function = node.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id in {"_LOG", "logger", "log"}
        and function.attr in {"debug", "info", "warning", "error", "exception", "critical"}
        and bool(node.args)
    )


def catches_cancellation(node: ast.ExceptHandler) -> bool:
    return node.type is None or any(name in {"BaseException", "CancelledError"} for name in caught(node.type))


def caught(node: ast.expr) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
