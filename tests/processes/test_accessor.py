import sys
from pathlib import Path

import pytest

from gpuruntime.processes.command import main


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--public-key=short"], "public key 'short'"),
        ([], "public keys: expected 1 to 2, got 0"),
        (["--public-key=" + "A" * 43 + "=", "--address=nowhere"], "host:port"),
        (["--public-key=" + "A" * 43 + "="], "No such file or directory"),
    ],
)
def test_an_accessor_that_cannot_start_says_why_in_one_line(
    flags: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["accessor", f"--directory={tmp_path / 'none'}", "--audience=uid", *flags])

    [line] = capsys.readouterr().err.splitlines()
    assert code == 1
    assert line.startswith("error: ")
    assert named in line


def test_without_package_cryptography_an_accessor_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)

    code = main(["accessor", f"--directory={tmp_path}", "--audience=uid", "--public-key=" + "A" * 43 + "="])

    assert (code, "gpuruntime[access]" in capsys.readouterr().err) == (1, True)
