"""`hack/packages`: check or install the Debian packages of hack/packages.txt, with the standard library only.

It makes no virtual environment, so that `sudo ./hack/packages --install` leaves no files of root in the checkout.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["LIST", "Package", "find_program", "install_command", "listed", "main"]

LIST: Final = Path(__file__).resolve().parent / "packages.txt"
# Where Debian puts programs of the administrator, which are not on the PATH of every user.
_ADMINISTRATION: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_APT: Final = ("apt-get", "--option=DPkg::Lock::Timeout=120")


class Package(NamedTuple):
    """A Debian package, and the program whose presence shows that it is installed."""

    name: str
    program: str


def listed(text: str) -> tuple[Package, ...]:
    """The packages of a list: `PACKAGE PROGRAM # who needs it`, one per line."""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return tuple(Package(*words) for words in lines if words)


def find_program(program: str) -> str | None:
    """The path of an installed program, also of one that only the administrator has on PATH."""
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_ADMINISTRATION]))


def install_command(packages: Sequence[Package]) -> str:
    """The command that installs packages, to be shown to a user."""
    prefix = "" if os.geteuid() == 0 else "sudo "
    return f"{prefix}apt-get install --yes {' '.join(package.name for package in packages)}"


def main(argv: list[str], packages: Sequence[Package] | None = None) -> int:
    """Check or install; exit code 1 if a package is missing at the end. Without a missing one, apt-get is not run."""
    parser = argparse.ArgumentParser(
        prog="hack/packages",
        description="The Debian packages that the tests need, from hack/packages.txt. Without one, the tests that need"
        " it are skipped; where CI is set, they fail.",
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="print what is missing, and the command that installs it")
    action.add_argument("--install", action="store_true", help="install what is missing; needs root and apt-get")
    arguments = parser.parse_args(argv)
    packages = listed(LIST.read_text()) if packages is None else packages
    if arguments.install and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        _install(_missing(packages))
    missing = _missing(packages)
    if missing:
        print(f"missing packages: {install_command(missing)}", file=sys.stderr)
    return 1 if missing else 0


def _missing(packages: Sequence[Package]) -> list[Package]:
    return [package for package in packages if find_program(package.program) is None]


def _install(missing: Sequence[Package]) -> None:
    """Install packages one by one: one that cannot be installed does not prevent the others."""
    is_updated = False
    for package in missing:
        install = ("install", "--yes", "--no-install-recommends", package.name)
        if _apt_get(*install) or is_updated:
            continue
        # The first failure may come from lists of packages that are absent or old.
        is_updated = True
        _apt_get("update")
        _apt_get(*install)


def _apt_get(*arguments: str) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Standard output of this program is for its own words.
    return subprocess.run([*_APT, *arguments], env=environment, stdout=sys.stderr, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
