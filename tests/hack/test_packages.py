"""`hack/packages` and `require_program`: the Debian packages that tests need."""

import os
import re
from pathlib import Path

import pytest

from gpuruntime.testing.node.requirements import PACKAGES
from hack.packages import LIST, Package, listed, main
from tests import programs
from tests.programs import require_program

ROOT = Path(__file__).resolve().parents[2]
# Packages of every Debian system, whose programs the real node needs.
EVERYWHERE = {"util-linux", "mount"}
HERE = Path(__file__).resolve()
MISSING = (Package("first", "program-one"), Package("no-such-package", "program-none"), Package("last", "program-two"))
# Installs what is named "first" and "last", as `program-one` and `program-two`, after an update.
APT_GET = """#!/bin/sh
echo "$@" >> {directory}/log
case "$*" in
*update*) touch {directory}/updated ;;
*first*) test -e {directory}/updated && cp "$0" {directory}/program-one ;;
*last*) cp "$0" {directory}/program-two ;;
*) exit 100 ;;
esac
"""


@pytest.fixture
def apt_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of an apt-get that finds its packages only after an update."""
    program = tmp_path / "apt-get"
    program.write_text(APT_GET.format(directory=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path / "log"


def actions(log: Path) -> list[str]:
    """What apt-get was run for, without its options."""
    words = ([word for word in line.split() if not word.startswith("-")] for line in log.read_text().splitlines())
    return [" ".join(line) for line in words]


def test_the_list_has_the_programs_that_tests_require_and_no_others() -> None:
    files = [path for folder in ("tests", "e2e") for path in (ROOT / folder).rglob("*.py") if path != HERE]
    required = {name for path in files for name in re.findall(r'require_program\("([^"]+)"\)', path.read_text())}
    required |= {program for program, package in PACKAGES.items() if package not in EVERYWHERE}

    programs_of_list = [package.program for package in listed(LIST.read_text())]

    assert sorted(programs_of_list) == sorted(required)


def test_a_package_that_cannot_be_installed_does_not_prevent_the_others(apt_get: Path) -> None:
    code = main(["--install"], MISSING)

    assert code == 1
    assert actions(apt_get) == ["install first", "update", "install first", "install no-such-package", "install last"]
    assert main(["--check"], MISSING[::2]) == 0


def test_apt_get_is_not_run_if_nothing_is_missing(apt_get: Path) -> None:
    code = main(["--install"], [Package("coreutils", "ls")])

    assert code == 0
    assert not apt_get.exists()


def test_without_root_the_command_that_installs_is_shown(
    apt_get: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    code = main(["--install"], MISSING)

    assert code == 1
    assert not apt_get.exists()
    assert "sudo apt-get install --yes first no-such-package last" in capsys.readouterr().err


def test_a_test_without_its_program_is_skipped_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_PACKAGES", {package.program: package for package in MISSING})

    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install --yes first"):
        require_program("program-one")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install --yes first"):
        require_program("program-one")
