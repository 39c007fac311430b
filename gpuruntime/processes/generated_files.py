"""Files that a command writes: brought up to date, or found to be stale."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import frozen

__all__ = ["Generated"]


@frozen
class Generated:
    """What a command gives: texts by path, each beginning with `header`.

    `directory` is a place where every file with this header is the command's own, so that one that it gives no more is
    left over; None if there is no such place.
    """

    header: str
    texts: Mapping[Path, str]
    directory: Path | None = None

    def write(self) -> list[str]:
        """Bring the files up to date; what was done, a line a file. Files that are right are not touched."""
        told = []
        for path, text in self.texts.items():
            if _read(path) != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                told.append(f"wrote {path}")
        for path in self._left_over():
            path.unlink()
            told.append(f"removed {path}")
        return told

    def stale(self) -> list[str]:
        """What `write` would change, a line a file, and why."""
        told = []
        for path, text in self.texts.items():
            found = _read(path)
            if found is None:
                told.append(f"{path} is missing")
            elif found != text:
                told.append(f"{path} is stale: {_first_difference(found, text)}")
        return told + [f"{path} is left over: nothing gives it any more" for path in self._left_over()]

    def _left_over(self) -> Iterable[Path]:
        if self.directory is None:
            return
        for path in sorted(self.directory.glob("*.yaml")):
            if path not in self.texts and (_read(path) or "").startswith(self.header):
                yield path


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _first_difference(found: str, expected: str) -> str:
    old, new = found.splitlines(), expected.splitlines()
    number = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    if number is None:
        number = min(len(old), len(new))
    shown = [repr(lines[number].strip()) if number < len(lines) else "the end" for lines in (old, new)]
    return f"line {number + 1} is {shown[0]}, expected {shown[1]}"
