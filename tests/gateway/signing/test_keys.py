import logging
import sys
from pathlib import Path

import pytest

from gpuruntime.gateway.signing.keys import (
    AccessKeyError,
    PublicKeys,
    SigningKey,
    SigningKeyFile,
    check_public_key,
)


def test_a_key_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    first, second, file = SigningKey.generate(), SigningKey.generate(), tmp_path / "key.pem"
    file.write_bytes(first.pem)
    keys = SigningKeyFile(file)

    before = keys.current().public_text
    (tmp_path / "next.pem").write_bytes(second.pem)
    (tmp_path / "next.pem").rename(file)
    after = keys.current().public_text

    assert (before, after) == (first.public_text, second.public_text)


def test_an_invalid_key_file_leaves_the_last_key_in_use(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key, file = SigningKey.generate(), tmp_path / "key.pem"
    file.write_bytes(key.pem)
    keys = SigningKeyFile(file)

    with caplog.at_level(logging.ERROR):
        file.unlink()
        kept = keys.current().public_text

    assert kept == key.public_text
    assert "invalid signing key" in caplog.text


@pytest.mark.parametrize("content", [b"", b"secret", b"-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----"])
def test_a_file_without_a_key_is_refused_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(content)

    with pytest.raises(AccessKeyError, match=r"key\.pem: expected PEM") as refused:
        SigningKeyFile(file)

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("texts", [(), ("",), ("short",), ("AAAA",), (SigningKey.generate().public_text,) * 3])
def test_one_or_two_public_keys_are_expected(texts: tuple[str, ...]) -> None:
    with pytest.raises(AccessKeyError, match="public key"):
        PublicKeys(texts)


def test_the_text_of_a_public_key_is_checked() -> None:
    text = SigningKey.generate().public_text

    assert check_public_key(text) == text
    with pytest.raises(AccessKeyError, match="gpuruntime access-key"):
        check_public_key("not a key")


def test_without_package_cryptography_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)

    with pytest.raises(AccessKeyError, match=r"pip install gpuruntime\[access\]"):
        SigningKey.generate()
