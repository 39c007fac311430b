from collections.abc import Callable
from pathlib import Path

import pytest

from gpuruntime.processes.generate.importing import ImportProblemError, find_object, kinds_of

KIND = """
from typing import ClassVar
from attrs import frozen
from gpuruntime.meta import Definition, ResourceKind, TypedObject

@frozen
class {name}(TypedObject):
    KIND = ResourceKind("{group}", "v1", "{name}", "{name}s", namespaced=True)
    DEFINITION: ClassVar = Definition()
"""
Package = Callable[[dict[str, str]], str]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """Makes a package of files that can be imported; gives its name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(files: dict[str, str]) -> str:
        name = f"made_{tmp_path.name.replace('-', '_')}"
        for path, text in {"__init__.py": "", **files}.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(text)
        return name

    return make


def test_kinds_are_found_at_any_depth_each_once_and_in_order(package: Package) -> None:
    name = package(
        {
            "late.py": KIND.format(name="Zebra", group="b.org"),
            "deep/__init__.py": "",
            "deep/early.py": KIND.format(name="Ant", group="a.org"),
            "again.py": "from .late import Zebra",
            "__main__.py": "raise SystemExit('it ran')",
        }
    )

    found = kinds_of(name)

    assert [kind.__name__ for kind in found] == ["Ant", "Zebra"]


def test_a_package_without_kinds_is_an_error_that_says_what_was_expected(package: Package) -> None:
    with pytest.raises(ImportProblemError, match="DEFINITION"):
        kinds_of(package({}))


def test_a_module_that_fails_is_named_with_its_error_and_line(package: Package) -> None:
    name = package({"bad.py": "x = 1\nint('no')\n"})

    with pytest.raises(ImportProblemError, match=rf"{name}.bad: ValueError: .*bad.py, line 2\)"):
        kinds_of(name)


def test_a_missing_module_is_distinguished_from_one_with_a_missing_import(package: Package) -> None:
    name = package({"bad.py": "import not_there_at_all\n"})

    with pytest.raises(ImportProblemError, match="'nowhere_to_be_found'"):
        find_object("nowhere_to_be_found.inner:build")
    with pytest.raises(ImportProblemError, match=f"{name}.bad: ModuleNotFoundError: .*not_there_at_all"):
        find_object(f"{name}.bad:build")


def test_an_object_is_found_by_its_path(package: Package) -> None:
    name = package({"main.py": "class Builder:\n    answer = 42\n"})

    assert find_object(f"{name}.main:Builder.answer") == 42
    with pytest.raises(ImportProblemError, match="'question'"):
        find_object(f"{name}.main:Builder.question")
    with pytest.raises(ImportProblemError, match="got 'main'"):
        find_object("main")
