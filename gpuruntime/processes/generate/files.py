"""Generated files: written, or checked for being stale."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import frozen

__all__ = ["Generated"]


@frozen
class Generated:
    """The output of a generator: texts by path, each beginning with `header`.

    A YAML file in `directory` with this header that is not among the texts is left over from an earlier run.
    """

    header: str
    texts: Mapping[Path, str]
    directory: Path | None = None

    def write(self) -> list[str]:
        """Write the files that differ and remove those left over; returns one line per change."""
        lines = []
        for path, text in self.texts.items():
            if _read(path) != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                lines.append(f"wrote {path}")
        for path in self._left_over():
            path.unlink()
            lines.append(f"removed {path}")
        return lines

    def stale(self) -> list[str]:
        """What `write` would change and why, one line per file."""
        lines = []
        for path, text in self.texts.items():
            found = _read(path)
            if found is None:
                lines.append(f"{path} is missing")
            elif found != text:
                lines.append(f"{path} is stale: {_first_difference(found, text)}")
        return lines + [f"{path} is left over: it is no longer generated" for path in self._left_over()]

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
    shown = [repr(text[number].strip()) if number < len(text) else "the end" for text in (old, new)]
    return f"line {number + 1} is {shown[0]}, expected {shown[1]}"
