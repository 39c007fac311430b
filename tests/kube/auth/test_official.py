"""A configuration of the official client is as good as a kubeconfig, and nothing of that package is imported."""

import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import kubernetes.aio.client
import kubernetes.client
import pytest
import yaml
from kubernetes.config import load_kube_config

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.official import from_official

if TYPE_CHECKING:
    from tests.kube.conftest import Authority, Server

CONFIGURATIONS = [kubernetes.client.Configuration, kubernetes.aio.client.Configuration]


@pytest.fixture(params=CONFIGURATIONS, ids=["sync", "aio"])
def configuration(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return request.param(host="https://api:6443/")


async def header(configuration: Any) -> str | None:
    return (await from_official(configuration).authorize()).headers.get("Authorization")


def test_the_endpoint_is_taken_over(configuration: Any) -> None:
    configuration.proxy = "http://proxy:3128"
    configuration.tls_server_name = "kubernetes"

    endpoint = from_official(configuration, namespace="team").endpoint

    assert endpoint.server == "https://api:6443"
    assert endpoint.proxy == "http://proxy:3128"
    assert endpoint.tls_server_name == "kubernetes"
    assert endpoint.namespace == "team"


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, None),
        ({"api_key": {"BearerToken": "Bearer one"}}, "Bearer one"),
        ({"api_key": {"authorization": "Bearer one"}}, "Bearer one"),
        ({"api_key": {"BearerToken": "bearer one\n"}}, "bearer one"),
        ({"api_key": {"authorization": "one"}, "api_key_prefix": {"authorization": "Bearer"}}, "Bearer one"),
        ({"api_key": {"BearerToken": "one"}, "api_key_prefix": {"authorization": "Bearer"}}, "Bearer one"),
        ({"api_key": {"BearerToken": "new", "authorization": "old"}}, "new"),
        ({"username": "alice", "password": "secret"}, "Basic YWxpY2U6c2VjcmV0"),
        ({"api_key": {"authorization": "Bearer one"}, "username": "alice"}, "Bearer one"),
    ],
)
async def test_keys_and_passwords_become_the_header(
    configuration: Any, attributes: dict[str, Any], expected: str | None
) -> None:
    for name, value in attributes.items():
        setattr(configuration, name, value)

    assert await header(configuration) == expected


async def test_the_hook_is_called_before_each_use(configuration: Any) -> None:
    calls = []

    def hook(given: Any) -> None:
        calls.append(given)
        given.api_key["BearerToken"] = f"Bearer {len(calls)}"

    configuration.refresh_api_key_hook = hook
    credentials = from_official(configuration)

    first = await credentials.authorize()
    again = await credentials.refused(first)
    third = await credentials.authorize()

    assert first.headers["Authorization"] == "Bearer 1"
    assert again
    assert third.headers["Authorization"] == "Bearer 3"
    assert third.ssl is first.ssl
    assert calls == [configuration] * 3


async def test_a_hook_may_be_a_coroutine_and_concurrent_uses_share_a_call(configuration: Any) -> None:
    calls = 0

    async def hook(given: Any) -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        given.api_key["BearerToken"] = f"Bearer {calls}"

    configuration.refresh_api_key_hook = hook
    credentials = from_official(configuration)

    authorizations = await asyncio.gather(*(credentials.authorize() for _ in range(10)))

    assert {authorization.headers["Authorization"] for authorization in authorizations} == {"Bearer 1"}
    assert calls == 1


async def test_a_hook_that_returns_an_awaitable_is_awaited(configuration: Any) -> None:
    async def refresh() -> None:
        configuration.api_key["BearerToken"] = "Bearer one"

    configuration.refresh_api_key_hook = lambda _: refresh()

    assert await header(configuration) == "Bearer one"


async def test_a_failing_hook_is_an_error_and_never_an_anonymous_request(configuration: Any) -> None:
    def hook(_: Any) -> None:
        raise ValueError("hush")

    configuration.refresh_api_key_hook = hook

    with pytest.raises(CredentialsError) as caught:
        await header(configuration)

    assert str(caught.value).startswith("configuration.refresh_api_key_hook ")
    assert str(caught.value).endswith("ValueError")
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("inline", [False, True])
async def test_authority_and_client_certificate_are_taken_over_and_followed(
    configuration: Any,
    tmp_path: Path,
    authority: "Authority",
    server: "Server",
    inline: bool,
) -> None:
    def write(name: str) -> None:
        pair = authority.issue(name)
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        (tmp_path / "tls.key").write_bytes(pair.key)

    write("alice")
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    configuration.ssl_ca_cert = None if inline else str(tmp_path / "ca.crt")
    configuration.ca_cert_data = authority.certificate.decode() if inline else None
    configuration.cert_file, configuration.key_file = str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")
    credentials = from_official(configuration)
    seen = []

    async with server(authority, "api.example") as connect:
        for name in ("bob", "carol"):
            authorization = await credentials.authorize()
            assert authorization.ssl is not None
            seen.append(await connect(authorization.ssl))
            write(name)
            assert await credentials.refused(authorization)

    assert seen == ["alice", "bob"]


async def test_verification_is_what_the_configuration_says(configuration: Any) -> None:
    async def checks() -> tuple[bool, bool]:
        context = (await from_official(configuration).authorize()).ssl
        assert context is not None
        return bool(context.verify_mode), context.check_hostname

    by_default = await checks()
    configuration.assert_hostname = False
    without_names = await checks()
    configuration.verify_ssl = False
    without_any = await checks()

    assert (by_default, without_names, without_any) == ((True, True), (True, False), (False, False))


@pytest.mark.parametrize(
    ("no_proxy", "used"),
    [
        (None, True),
        ("other", True),
        ("*", False),
        ("api", False),
        ("a, .api", False),
        ("api:6443", False),
        ("pi", True),
    ],
)
def test_exceptions_from_the_proxy_are_honoured(configuration: Any, no_proxy: str | None, used: bool) -> None:
    configuration.proxy = "http://proxy"
    configuration.no_proxy = no_proxy

    assert from_official(configuration).endpoint.proxy == ("http://proxy" if used else None)


def test_networks_may_be_exceptions_from_the_proxy() -> None:
    configuration = SimpleNamespace(host="https://10.1.2.3", proxy="http://proxy", no_proxy="192.168.0.0/16,10.0.0.0/8")

    assert from_official(configuration).endpoint.proxy is None


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("host", "api:6443"), ("proxy", "socks5://proxy"), ("assert_hostname", "name"), ("tls_server_name", 1)],
)
def test_what_cannot_be_used_is_an_error_that_names_the_attribute(
    configuration: Any, attribute: str, value: Any
) -> None:
    setattr(configuration, attribute, value)

    with pytest.raises(CredentialsError, match=f"configuration.{attribute}: "):
        from_official(configuration)


def test_another_object_is_an_error() -> None:
    with pytest.raises(CredentialsError, match=r"configuration.host"):
        from_official(object())


async def test_a_kubeconfig_loaded_by_the_official_client_can_be_handed_over(tmp_path: Path) -> None:
    document = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api"}}],
        "users": [{"name": "u", "user": {"token": "one"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    configuration = kubernetes.client.Configuration()
    load_kube_config(str(tmp_path / "config"), client_configuration=configuration, persist_config=False)

    assert await header(configuration) == "Bearer one"


def test_the_official_package_is_not_imported() -> None:
    program = "import sys, gpuruntime.kube.auth.official; sys.exit('kubernetes' in sys.modules)"

    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])
