import subprocess
import sys

import pytest

PROGRAM = (
    "import resource; from gpuruntime.processes.open_files import raise_open_files; raise_open_files();"
    "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
)


@pytest.mark.parametrize(("soft", "hard", "found"), [(64, 512, "512 512"), (256, 256, "256 256")])
def test_a_process_may_open_as_many_files_as_the_system_lets_it(soft: int, hard: int, found: str) -> None:
    command = f'ulimit -n {hard}; ulimit -S -n {soft}; exec "$@"'

    ran = subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )

    assert ran.stdout.strip() == found
