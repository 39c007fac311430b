"""TLS contexts believe and show what the files say now."""

import asyncio
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.tls import Pem, RotatingTLS, Trust, client_context

if TYPE_CHECKING:
    from tests.kube.conftest import Authority, Pair, Server


class Files:
    """The files of a client, which can be rotated."""

    def __init__(self, directory: Path) -> None:
        self.ca = Pem("the authority", directory / "ca.crt")
        self.certificate = Pem("the certificate", directory / "tls.crt")
        self.key = Pem("the key", directory / "tls.key")
        self._directory = directory

    def write(self, authority: "Authority", pair: "Pair") -> None:
        (self._directory / "ca.crt").write_bytes(authority.certificate)
        (self._directory / "tls.crt").write_bytes(pair.certificate)
        (self._directory / "tls.key").write_bytes(pair.key)

    def write_certificate(self, content: bytes) -> None:
        (self._directory / "tls.crt").write_bytes(content)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def test_rotated_authority_and_pair_are_used_for_the_next_connection(
    files: Files,
    authority: "Authority",
    other_authority: "Authority",
    server: "Server",
    advance: Callable[[float], None],
) -> None:
    files.write(authority, authority.issue("alice"))
    tls = RotatingTLS(Trust(ca=files.ca))
    async with server(authority, "old.example") as connect:
        assert await connect(tls.context(files.certificate, files.key)) == "alice"

    files.write(other_authority, other_authority.issue("bob"))
    advance(6)

    async with server(other_authority, "new.example") as connect:
        assert await connect(tls.context(files.certificate, files.key)) == "bob"


async def test_a_context_is_the_same_object_until_the_content_changes(
    files: Files, authority: "Authority", advance: Callable[[float], None]
) -> None:
    pair = authority.issue("alice")
    files.write(authority, pair)
    tls = RotatingTLS(Trust(ca=files.ca))
    before = tls.context(files.certificate, files.key)

    files.write(authority, pair)
    advance(6)

    assert tls.context(files.certificate, files.key) is before


async def test_files_are_not_looked_at_again_within_the_interval(
    files: Files, authority: "Authority", advance: Callable[[float], None]
) -> None:
    files.write(authority, authority.issue("alice"))
    tls = RotatingTLS(Trust(ca=files.ca), interval=5)
    before = tls.context(files.certificate, files.key)
    files.write(authority, authority.issue("bob"))

    advance(4)
    within = tls.context(files.certificate, files.key)
    tls.recheck()
    forced = tls.context(files.certificate, files.key)

    assert within is before
    assert forced is not before


async def test_a_half_written_pair_keeps_the_old_context_and_is_tried_again(
    files: Files,
    authority: "Authority",
    server: "Server",
    advance: Callable[[float], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    files.write(authority, authority.issue("alice"))
    tls = RotatingTLS(Trust(ca=files.ca))
    before = tls.context(files.certificate, files.key)
    bob = authority.issue("bob")

    files.write_certificate(bob.certificate)
    advance(6)
    during = tls.context(files.certificate, files.key)
    files.write(authority, bob)
    advance(6)
    after = tls.context(files.certificate, files.key)

    assert during is before
    assert [record.message for record in caplog.records] == ["invalid TLS files, keeping the previous ones"]
    async with server(authority, "api.example") as connect:
        assert await connect(after) == "bob"


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nMIIB", b"\xff\xfe"])
async def test_a_broken_or_missing_file_keeps_the_old_context(
    files: Files, authority: "Authority", advance: Callable[[float], None], content: bytes
) -> None:
    files.write(authority, authority.issue("alice"))
    tls = RotatingTLS(Trust(ca=files.ca))
    before = tls.context(files.certificate, files.key)

    files.write_certificate(content)
    advance(6)
    broken = tls.context(files.certificate, files.key)
    for name in (files.ca, files.certificate, files.key):
        assert isinstance(name.content, Path)
        name.content.unlink()
    advance(6)
    missing = tls.context(files.certificate, files.key)

    assert broken is before
    assert missing is before


async def test_another_pair_that_does_not_load_is_an_error_and_not_the_old_context(
    files: Files, authority: "Authority"
) -> None:
    files.write(authority, authority.issue("alice"))
    tls = RotatingTLS(Trust(ca=files.ca))
    tls.context(files.certificate, files.key)

    with pytest.raises(CredentialsError, match="plugin certificate and the key"):
        tls.context(Pem("plugin certificate", b"nothing"), files.key)


async def test_a_server_of_an_unknown_authority_is_not_believed(
    authority: "Authority", other_authority: "Authority", server: "Server"
) -> None:
    context = client_context(Trust(ca=Pem("ca", authority.certificate)), None, None)

    async with server(other_authority, "api.example") as connect:
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(context)


async def test_a_server_under_another_name_is_believed_only_without_the_check_of_names(
    authority: "Authority", server: "Server"
) -> None:
    ca = Pem("ca", authority.certificate)
    strict = client_context(Trust(ca=ca), None, None)
    lenient = client_context(Trust(ca=ca, check_hostname=False), None, None)

    async with server(authority, "api.example") as connect:
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(strict, expect="other.example")
        assert await connect(lenient, expect="other.example") == "nobody"


async def test_without_verification_any_server_is_believed(other_authority: "Authority", server: "Server") -> None:
    context = client_context(Trust(verify=False), None, None)

    async with server(other_authority, "api.example") as connect:
        assert await connect(context) == "nobody"


def test_contexts_are_modern_verified_and_not_strict_about_key_identifiers(authority: "Authority") -> None:
    context = client_context(Trust(ca=Pem("ca", authority.certificate)), None, None)

    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


def test_a_bundle_may_have_comments_in_any_language(authority: "Authority", other_authority: "Authority") -> None:
    bundle = "# Zürich\n".encode() + authority.certificate + b"\n# \xff\n" + other_authority.certificate

    context = client_context(Trust(ca=Pem("ca", bundle)), None, None)

    assert len(context.get_ca_certs()) == 2


@pytest.mark.parametrize("content", [b"", b"no pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_an_authority_that_is_none_is_an_error_that_names_its_place(content: bytes) -> None:
    with pytest.raises(CredentialsError, match=r"^clusters\[0\]: "):
        client_context(Trust(ca=Pem("clusters[0]", content)), None, None)


def test_an_encrypted_key_is_an_error_and_never_a_question_on_the_terminal(authority: "Authority") -> None:
    pair = authority.issue("alice")
    encrypted = load_pem_private_key(pair.key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )

    with pytest.raises(CredentialsError, match="the certificate and the key"):
        client_context(Trust(verify=False), Pem("the certificate", pair.certificate), Pem("the key", encrypted))


@pytest.mark.parametrize("broken", [False, True])
def test_inline_keys_leave_nothing_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: "Authority", broken: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pair = authority.issue("alice")
    key = Pem("key", b"broken" if broken else pair.key)

    try:
        client_context(Trust(verify=False), Pem("certificate", pair.certificate), key)
    except CredentialsError:
        assert broken

    assert list(tmp_path.iterdir()) == []


def test_no_room_for_a_temporary_file_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: "Authority"
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    pair = authority.issue("alice")

    with pytest.raises(CredentialsError, match="TMPDIR"):
        client_context(Trust(verify=False), Pem("certificate", pair.certificate), Pem("key", pair.key))


def test_a_missing_file_is_an_error_that_names_field_and_file(tmp_path: Path) -> None:
    async def context() -> None:
        RotatingTLS(Trust(ca=Pem("clusters[0].cluster.certificate-authority", tmp_path / "ca.crt"))).context(None, None)

    with pytest.raises(CredentialsError, match=r"certificate-authority: .*ca.crt: No such file"):
        asyncio.run(context())
