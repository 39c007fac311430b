"""Creates or updates the virtual environment of this checkout, with the standard library only.

Safe to run at any time and concurrently: it works under a lock, and records success only when it is complete.
"""

import configparser
import fcntl
import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".gpuruntime"
VENV = STATE / "venv"
INPUTS = ("pyproject.toml", "hack/constraints.txt", "gpuruntime/__init__.py")


class SetUpError(Exception):
    """The environment cannot be created; the message says what to do."""


def main() -> int:
    stamp = VENV / "complete"
    wanted = _fingerprint()
    if stamp.exists() and stamp.read_text() == wanted:
        return 0
    try:
        STATE.mkdir(exist_ok=True)
        with (STATE / "venv.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (stamp.exists() and stamp.read_text() == wanted):
                _make()
                stamp.write_text(wanted)
    except (SetUpError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{ROOT} {sys.version} {sys.base_prefix}".encode())
    for name in INPUTS:
        digest.update((ROOT / name).read_bytes())
    # The other sections configure tools, which read them at each run.
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    for name in setup.sections():
        if name == "metadata" or name.startswith("options"):
            digest.update(f"{name} {setup.items(name)}".encode())
    return digest.hexdigest()


def _make() -> None:
    print(f"setting up {VENV.relative_to(ROOT)} with Python {sys.version.split()[0]} ...", file=sys.stderr, flush=True)
    try:
        venv.create(VENV, with_pip=True, clear=True)
    except subprocess.CalledProcessError as error:
        raise SetUpError(
            f"{sys.executable} cannot make virtual environments ({error}): install its venv module"
            " (Debian and Ubuntu: apt-get install python3-venv)"
        ) from error
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    constraints = str(ROOT / "hack" / "constraints.txt")
    done = subprocess.run(
        [*command, "--constraint", constraints, "--editable", f"{ROOT}[dev,fast]"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise SetUpError(
            f"{lines[-1]}: check that pip reaches its package index and that the disk has room, then run again"
        )


if __name__ == "__main__":
    sys.exit(main())
