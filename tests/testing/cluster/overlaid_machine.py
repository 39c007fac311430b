"""This machine under an overlay in a private mount namespace: a program's writes are recorded and discarded.

The overlay contains the writes of the program and its children only, whatever other processes write meanwhile.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["leftovers"]

_ROOT: Final = Path(__file__).resolve().parents[3]
# The paths `hidden` are removed in the overlay first: leftovers of an earlier program would hide those of this one.
_SCRIPT: Final = """
set -eu
stage=$1 hidden=$2
shift 2
mount -t tmpfs stage "$stage"
mkdir "$stage/upper" "$stage/work" "$stage/root"
mount -t overlay stage -o "lowerdir=/,upperdir=$stage/upper,workdir=$stage/work" "$stage/root"
for system in proc dev sys; do mount --rbind "/$system" "$stage/root/$system"; done
for place in $hidden; do rm -rf "$stage/root$place"; done
chroot "$stage/root" "$@" >&2
cd "$stage/upper"
find . -mindepth 1 -printf '%y /%P\\n'
"""


def leftovers(program: str, *arguments: str, stage: Path, hidden: Sequence[Path]) -> list[Path]:
    """The files and directories that a Python program created; directories without their content.

    Raises:
        subprocess.CalledProcessError: the program failed; its output is on standard error.
    """
    script = ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", str(stage), " ".join(str(place) for place in hidden)]
    done = subprocess.run(
        [*script, sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(_ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    entries = [line.split(" ", 1) for line in done.stdout.splitlines()]
    # A directory is in the overlay also if something inside was changed or removed. A device marks a removal.
    made = [
        Path(place) for kind, place in entries if kind not in "cd" or (kind == "d" and _is_new(Path(place), hidden))
    ]
    return [place for place in made if place.parent not in made]


def _is_new(directory: Path, hidden: Sequence[Path]) -> bool:
    return not directory.exists() or any(directory.is_relative_to(place) for place in hidden)
