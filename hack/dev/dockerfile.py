"""The Dockerfile as a list of steps."""

import json
import re
import shlex
from pathlib import Path
from typing import Final

from attrs import frozen

__all__ = ["ROOT", "Dockerfile", "Stage", "read_dockerfile"]

ROOT: Final = Path(__file__).resolve().parents[2]
_KNOWN: Final = frozenset({"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"})


@frozen
class Stage:
    """A stage: its base, and its instructions in order."""

    name: str
    base: str
    steps: tuple[tuple[str, str], ...]

    def all(self, instruction: str) -> list[str]:
        return [rest for known, rest in self.steps if known == instruction]


@frozen
class Dockerfile:
    """All stages; the last one is the image."""

    stages: tuple[Stage, ...]

    @property
    def image(self) -> Stage:
        return self.stages[-1]

    @property
    def entrypoint(self) -> list[str]:
        (text,) = self.image.all("ENTRYPOINT")
        return [str(word) for word in json.loads(text)]

    @property
    def command(self) -> list[str]:
        (text,) = self.image.all("CMD")
        return [str(word) for word in json.loads(text)]

    @property
    def user(self) -> tuple[int, int]:
        (text,) = self.image.all("USER")
        user, group = text.split(":")
        return int(user), int(group)

    @property
    def environment(self) -> dict[str, str]:
        words = [word for text in self.image.all("ENV") for word in shlex.split(text)]
        return dict(word.split("=", 1) for word in words)


def read_dockerfile(text: str) -> Dockerfile:
    """Parse the instructions that our Dockerfile uses.

    Raises:
        ValueError: an unsupported instruction.
    """
    stages: list[Stage] = []
    steps: list[tuple[str, str]] = []
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines()
    for line in filter(None, map(str.strip, lines)):
        instruction, _, rest = line.partition(" ")
        if instruction not in _KNOWN:
            raise ValueError(f"{instruction}: expected one of {', '.join(sorted(_KNOWN))}")
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            steps = []
            stages.append(Stage(name, base, ()))
        else:
            steps.append((instruction, rest))
            stages[-1] = Stage(stages[-1].name, stages[-1].base, tuple(steps))
    return Dockerfile(tuple(stages))
