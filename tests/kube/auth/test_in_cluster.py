"""A pod is what its service account says, even after the kubelet rotated it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.in_cluster import in_cluster

if TYPE_CHECKING:
    from tests.kube.conftest import Authority, Server

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path, authority: "Authority") -> Path:
    directory = tmp_path / "serviceaccount"
    directory.mkdir()
    (directory / "token").write_text("one\n")
    (directory / "ca.crt").write_bytes(authority.certificate)
    (directory / "namespace").write_text("team\n")
    return directory


async def test_the_service_account_is_who_we_are(account: Path, authority: "Authority", server: "Server") -> None:
    credentials = in_cluster(account, POD)

    authorization = await credentials.authorize()

    assert credentials.endpoint.server == "https://10.0.0.1:443"
    assert credentials.endpoint.namespace == "team"
    assert dict(authorization.headers) == {"Authorization": "Bearer one"}
    assert authorization.ssl is not None
    async with server(authority, "api.example") as connect:
        assert await connect(authorization.ssl) == "nobody"


@pytest.mark.parametrize(("host", "server"), [("fd00::1", "https://[fd00::1]:443"), ("api.svc", "https://api.svc:443")])
def test_addresses_of_ip_6_get_brackets(account: Path, host: str, server: str) -> None:
    credentials = in_cluster(account, {**POD, "KUBERNETES_SERVICE_HOST": host})

    assert credentials.endpoint.server == server


async def test_a_rotated_token_and_authority_need_no_restart(
    account: Path, other_authority: "Authority", server: "Server", advance: Callable[[float], None]
) -> None:
    credentials = in_cluster(account, POD)
    await credentials.authorize()

    (account / "token").write_text("two")
    (account / "ca.crt").write_bytes(other_authority.certificate)
    advance(11)
    authorization = await credentials.authorize()

    assert authorization.headers["Authorization"] == "Bearer two"
    assert authorization.ssl is not None
    async with server(other_authority, "api.example") as connect:
        await connect(authorization.ssl)


async def test_a_refused_token_is_read_again_at_once(account: Path) -> None:
    credentials = in_cluster(account, POD)
    used = await credentials.authorize()
    (account / "token").write_text("two")

    again = await credentials.refused(used)

    assert again
    assert (await credentials.authorize()).headers["Authorization"] == "Bearer two"


def test_the_namespace_may_be_missing(account: Path) -> None:
    (account / "namespace").unlink()

    assert in_cluster(account, POD).endpoint.namespace == "default"


@pytest.mark.parametrize("missing", POD)
def test_outside_of_a_cluster_is_an_error(account: Path, missing: str) -> None:
    environ = {name: value for name, value in POD.items() if name != missing}

    with pytest.raises(CredentialsError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster(account, environ)


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_an_unmounted_service_account_is_an_error_that_says_what_to_do(account: Path, missing: str) -> None:
    (account / missing).unlink()

    with pytest.raises(CredentialsError, match=f"{missing} .*automountServiceAccountToken"):
        in_cluster(account, POD)
