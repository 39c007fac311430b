import stat
from pathlib import Path

import pytest

from gpuruntime.gateway.signing.keys import PublicKeys, SigningKeyFile
from gpuruntime.processes.command import main


def test_the_private_key_is_in_a_file_of_its_owner_and_the_public_key_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "key.pem"

    code = main(["access-key", "--file", str(file)])

    printed = capsys.readouterr().out.strip()
    key = SigningKeyFile(file).current()
    assert (code, stat.S_IMODE(file.stat().st_mode)) == (0, 0o600)
    assert key.public_text == printed
    assert PublicKeys([printed]).verify(key.sign(b"message"), b"message")


def test_an_existing_file_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "key.pem"
    file.write_text("precious")

    code = main(["access-key", "--file", str(file)])

    assert (code, file.read_text()) == (1, "precious")
    assert "key.pem" in capsys.readouterr().err
