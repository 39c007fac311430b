"""Rules about the code that no linter has."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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


def test_a_file_has_at_most_600_lines() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in python_files()}

    assert {name: length for name, length in lengths.items() if length > LIMIT} == {}


def test_a_module_has_a_specific_name_a_docstring_and_a_list_of_exports() -> None:
    assert [fault for path in package_files() for fault in faults_of_a_module(path)] == []


def faults_of_a_module(path: Path) -> Iterator[str]:
    module = ast.parse(path.read_text())
    assigned = [target for node in module.body if isinstance(node, ast.Assign) for target in node.targets]
    if path.stem in VAGUE:
        yield f"{name_of(path)}: the name is vague"
    if path.stem in sys.stdlib_module_names and path.stem not in {"__init__", "__main__"}:
        yield f"{name_of(path)}: the standard library has a module of this name"
    if not ast.get_docstring(module):
        yield f"{name_of(path)}: no docstring"
    if path.stem != "__init__" and "__all__" not in {target.id for target in assigned if isinstance(target, ast.Name)}:
        yield f"{name_of(path)}: no __all__"


def test_log_messages_are_constant_and_cancellation_is_never_swallowed() -> None:
    assert [fault for path in package_files() for fault in faults_of_statements(path)] == []


def faults_of_statements(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and is_log_call(node) and not isinstance(node.args[0], ast.Constant):
            yield f"{name_of(path)}:{node.lineno}: put what varies into extra={{...}}"
        if isinstance(node, ast.ExceptHandler) and catches_cancellation(node) and not raises(node):
            yield f"{name_of(path)}:{node.lineno}: raise the cancellation again"


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


def raises(node: ast.ExceptHandler) -> bool:
    return any(isinstance(inner, ast.Raise) for inner in ast.walk(node))


def caught(node: ast.expr) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
