"""A cluster is an address that can be reached and a server that can be recognised, or a clear error."""

from pathlib import Path
from typing import Any

import pytest

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.kubeconfig.clusters import read_cluster
from gpuruntime.kube.auth.kubeconfig.files import Field


def cluster(**fields: Any) -> Field:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return Field(Path("/etc/kubeconfig"), "clusters[2].cluster", {"server": "https://api", **named})


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("https://api", "https://api"),
        ("https://api/", "https://api"),
        ("HTTPS://Api:6443", "https://Api:6443"),
        ("https://[fd00::1]:6443/", "https://[fd00::1]:6443"),
        ("https://rancher/k8s/clusters/c-1/?a=b#c", "https://rancher/k8s/clusters/c-1"),
        ("http://127.0.0.1:8001", "http://127.0.0.1:8001"),
    ],
)
def test_the_address_has_no_query_and_no_slash_at_its_end(written: str, read: str) -> None:
    assert read_cluster(cluster(server=written)).server == read


@pytest.mark.parametrize(
    "server", ["api:6443", "10.0.0.1", "ftp://api", "https://", "https://api:http", "https://[::1"]
)
def test_another_address_is_an_error(server: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        read_cluster(cluster(server=server))

    assert str(caught.value).startswith("/etc/kubeconfig: clusters[2].cluster.server: ")


@pytest.mark.parametrize("server", [None, ""])
def test_a_cluster_without_an_address_is_an_error(server: str | None) -> None:
    with pytest.raises(CredentialsError, match=r"^/etc/kubeconfig: clusters\[2\].cluster: .*server"):
        read_cluster(cluster(server=server))


@pytest.mark.parametrize("proxy", ["http://proxy:3128", "https://me:hush@proxy"])
def test_http_proxies_are_taken(proxy: str) -> None:
    assert read_cluster(cluster(proxy_url=proxy)).proxy == proxy


@pytest.mark.parametrize(("proxy", "scheme"), [("socks5://me:hush@proxy", "socks5"), ("proxy:3128", "another scheme")])
def test_other_proxies_are_an_error_that_does_not_show_the_address(proxy: str, scheme: str) -> None:
    with pytest.raises(CredentialsError, match=f"cluster.proxy-url: .*{scheme}") as caught:
        read_cluster(cluster(proxy_url=proxy))

    assert "hush" not in str(caught.value)


def test_servers_are_verified_unless_the_kubeconfig_says_otherwise() -> None:
    assert read_cluster(cluster()).trust.verify
    assert read_cluster(cluster(insecure_skip_tls_verify=False)).trust.verify
    assert not read_cluster(cluster(insecure_skip_tls_verify=True)).trust.verify


def test_a_flag_that_is_text_is_an_error() -> None:
    with pytest.raises(CredentialsError, match=r"cluster.insecure-skip-tls-verify: .*str"):
        read_cluster(cluster(insecure_skip_tls_verify="true"))


def test_an_authority_that_would_not_be_asked_is_an_error() -> None:
    with pytest.raises(CredentialsError, match="insecure-skip-tls-verify"):
        read_cluster(cluster(insecure_skip_tls_verify=True, certificate_authority="ca.crt"))


def test_plugins_get_the_cluster_info_of_the_protocol() -> None:
    extensions = [
        {"name": "other", "extension": 1},
        {"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}},
    ]
    seen = cluster(
        insecure_skip_tls_verify=True,
        tls_server_name="name",
        proxy_url="http://proxy",
        disable_compression=True,
        extensions=extensions,
    )

    assert read_cluster(cluster()).exec_info() == {"server": "https://api"}
    assert read_cluster(seen).exec_info() == {
        "server": "https://api",
        "tls-server-name": "name",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://proxy",
        "config": {"a": 1},
    }


def test_an_extension_that_json_cannot_hold_is_an_error() -> None:
    extensions = [{"name": "client.authentication.k8s.io/exec", "extension": {1: 2}}]

    with pytest.raises(CredentialsError, match=r"cluster.extensions\[0\].extension: "):
        read_cluster(cluster(extensions=extensions))
