"""HTTPS with certificates that are reloaded while the process runs."""

import asyncio
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.endpoints.auth.certificate import CertificateError, server_tls
from gpuruntime.testing.cluster.certificates import Authority
from gpuruntime.testing.cluster.pki import KeyPair


async def common_name(bound: HttpAddress, authority: Authority) -> str:
    """The common name in the certificate of a server, for a client that trusts the authority."""
    trusting = ssl.create_default_context(cafile=str(authority.files.certificate))
    _, writer = await asyncio.open_connection(bound.host, bound.port, ssl=trusting, server_hostname="localhost")
    subject = writer.get_extra_info("peercert")["subject"]
    writer.close()
    await writer.wait_closed()
    names: dict[str, str] = {key: value for ((key, value),) in subject}
    return names["commonName"]


def install(pair: KeyPair, target: KeyPair) -> None:
    target.key.write_bytes(pair.key.read_bytes())
    target.certificate.write_bytes(pair.certificate.read_bytes())


async def test_a_new_certificate_is_used_by_the_next_connection(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "ca", "test")
    first, second = (authority.issue(name, name, hosts=("localhost",)) for name in ("first", "second"))
    target = KeyPair(tmp_path / "tls.crt", tmp_path / "tls.key")
    install(first, target)

    async with serving(web.Application(), HttpAddress(), tls=server_tls(target.certificate, target.key)) as bound:
        before = await common_name(bound, authority)
        install(second, target)
        after = await common_name(bound, authority)
        target.certificate.write_text("broken")
        broken = await common_name(bound, authority)

    assert bound.url.startswith("https://")
    assert [before, after, broken] == ["first", "second", "second"]


def test_invalid_files_are_an_error_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").write_text("nonsense")

    with pytest.raises(CertificateError, match=r"tls\.crt .*tls\.key"):
        server_tls(tmp_path / "tls.crt", tmp_path / "tls.key")
