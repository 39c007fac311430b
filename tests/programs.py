"""Programs outside Python that a test needs: found, or the test is skipped with the command that installs them."""

import os
from typing import Final

import pytest

from hack.packages import LIST, find_program, install_command, listed

__all__ = ["require_program"]

_PACKAGES: Final = {package.program: package for package in listed(LIST.read_text())}


def require_program(program: str) -> str:
    """The path of a program of hack/packages.txt. Without it the test is skipped; where `CI` is set, the test fails.

    A module that calls it at its top level is skipped, or fails, as a whole.
    """
    found = find_program(program)
    if found is None:
        reason = f"needs {program}, which is not installed: {install_command([_PACKAGES[program]])}"
        if "CI" in os.environ:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason, allow_module_level=True)
    return found
