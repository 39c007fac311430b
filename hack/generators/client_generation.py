"""A Python client that openapi-python-client generates from the OpenAPI document, and the check of its types."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from attrs import frozen

__all__ = ["PACKAGE", "GeneratedClient", "generate_client"]

PACKAGE: Final = "gpu_runtime_client"
_BIN: Final = Path(sys.executable).parent
# The generator's own client.py passes arguments of type object to httpx, whatever the document says.
_MYPY: Final = f"""\
[mypy]
strict = True
[mypy-{PACKAGE}.client]
disable_error_code = arg-type
"""


@frozen
class GeneratedClient:
    """A generated client package in its own directory."""

    directory: Path
    output: str
    """The output of the generator: one line if there are no warnings."""

    def functions(self) -> set[str]:
        """The names of the functions of the client, one per route, in snake case."""
        modules = (self.directory / PACKAGE / "api").glob("*/*.py")
        return {module.stem for module in modules if module.stem != "__init__"}

    def type_errors(self, *programs: Path) -> str:
        """The errors of mypy --strict in the client and in programs that use it; "" if there are none."""
        config = self.directory / "mypy.ini"
        config.write_text(_MYPY)
        options = ("--config-file", str(config), "--cache-dir", str(self.directory / "mypy-cache"))
        done = self._run([str(_BIN / "mypy"), *options, PACKAGE, *map(str, programs)])
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def run(self, program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program that imports the client."""
        return self._run([sys.executable, str(program), *arguments])

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.directory), "MYPYPATH": str(self.directory)}
        return subprocess.run(command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False)


def generate_client(document: Path, directory: Path) -> GeneratedClient:
    """Generate the client of an OpenAPI document in a directory."""
    command = [str(_BIN / "openapi-python-client"), "generate", "--meta", "none", "--path", str(document)]
    # The generator formats its output with the ruff on PATH.
    environment = {**os.environ, "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [*command, "--output-path", str(directory / PACKAGE)],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return GeneratedClient(directory, done.stdout + done.stderr)
