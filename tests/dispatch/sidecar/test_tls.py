"""TLS to the activator: a private authority in the environment, and no other."""

import ssl
from pathlib import Path

import pytest

from gpuruntime.dispatch.sidecar.settings import read_settings
from tests.dispatch.sidecar.scripted_activator import scripted_activator, until
from tests.dispatch.sidecar.sidecar_scenes import sidecar
from tests.dispatch.sidecar.test_settings import LEAST
from tests.framework.framework_scenes import served
from tests.kube.conftest import Authority


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("private")


async def test_a_sidecar_trusts_the_authority_in_its_environment(authority: Authority, tmp_path: Path) -> None:
    settings = read_settings(
        LEAST
        | {"SERVERLESS_ACTIVATOR_URL": "wss://127.0.0.1", "SERVERLESS_ACTIVATOR_CA": authority.certificate.decode()}
    )
    async with (
        scripted_activator(server_context(authority, tmp_path)) as activator,
        served(tmp_path / "f.sock", lambda payload: payload),
        sidecar(tmp_path, activator, activator_ca=settings.activator_ca) as scene,
    ):
        connection = await scene.activator.ready_connection()
        await connection.run(payload=b"1")
        result, _ = await connection.result()

    assert result.state == "succeeded"


async def test_a_sidecar_trusts_no_other_authority(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        scripted_activator(server_context(authority, tmp_path)) as activator,
        sidecar(tmp_path, activator, activator_ca=Authority("other").certificate.decode()),
    ):
        await until(lambda: any(hasattr(record, "url") for record in caplog.records))

    lines = [record for record in caplog.records if hasattr(record, "url")]
    assert lines[0].message == "the connection to the activator failed"
    assert "certificate verify failed" in vars(lines[0])["reason"]


def server_context(authority: Authority, directory: Path) -> ssl.SSLContext:
    pair = authority.issue("localhost")
    (directory / "pair.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "pair.pem")
    return context
