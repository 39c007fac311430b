"""The wheel is complete, and has the types of the source."""

from pathlib import Path

from gpuruntime import __version__
from gpuruntime.testing import assets
from tests.docs.pages import PAGES
from tests.docs.wheel_environment import ROOT, WheelEnvironment, mypy


def test_the_command_works(wheel: WheelEnvironment, tmp_path: Path) -> None:
    done = wheel.run(["gpuruntime", "--version"], tmp_path)

    assert done.stdout == f"gpuruntime {__version__}\n"


def test_the_wheel_builds_the_same_control_plane_as_the_checkout(wheel: WheelEnvironment, tmp_path: Path) -> None:
    done = wheel.run([wheel.python, "-m", "gpuruntime.testing", "assets"], tmp_path)

    assert (done.returncode, Path(done.stdout.strip())) == (0, assets.locate())


def test_the_programs_of_the_pages_pass_mypy_strict(wheel: WheelEnvironment, tmp_path: Path) -> None:
    for page in ("quickstart", "reconcile"):
        for name, body in PAGES[page].files.items():
            if not name.startswith("test_"):
                (tmp_path / name).write_text(body)

    assert mypy(wheel, tmp_path, "greeter.py", "mirror.py") == "Success: no issues found in 2 source files\n"


def test_the_types_of_the_wheel_reveal_a_users_mistake(wheel: WheelEnvironment, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "from gpuruntime.control import ManagerOptions, Result\n\nResult.after('soon')\nManagerOptions(name=1)\n"
    )

    found = mypy(wheel, tmp_path, "wrong.py")

    assert 'Argument 1 to "after" of "Result" has incompatible type "str"; expected "float"' in found
    assert "Found 2 errors in 1 file" in found


def test_the_examples_pass_mypy_strict(wheel: WheelEnvironment) -> None:
    for example, package in (("website", "website"), ("embedded", "notes")):
        said = mypy(wheel, ROOT / "examples" / example, package, "tests")
        assert said.startswith("Success: no issues found"), said
