"""A user is who client-go would take it for; what contradicts itself is an error."""

import os
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.exec_identity import ExecIdentity
from gpuruntime.kube.auth.identity import ANONYMOUS, FixedIdentity, TokenFile
from gpuruntime.kube.auth.kubeconfig.clusters import Cluster
from gpuruntime.kube.auth.kubeconfig.files import Field
from gpuruntime.kube.auth.kubeconfig.users import identity_source, impersonation
from gpuruntime.kube.auth.tls import Pem, Trust

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
HTTPS = Cluster("https://api", Trust(ca=Pem("ca", b"the authority")))


def user(**fields: Any) -> Field:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return Field(Path("/etc/kube/config"), "users[1].user", named)


def plugin_user(**fields: Any) -> Field:
    return user(exec={"apiVersion": V1, "command": "plugin", "interactiveMode": "Never", **fields})


def plugin_of(field: Field, cluster: Cluster = HTTPS) -> Any:
    source = identity_source(field, cluster, os.environ)
    assert isinstance(source, ExecIdentity)
    return source._plugin


@pytest.mark.parametrize(
    "static",
    [
        {"token": "one"},
        {"username": "alice"},
        {"client_certificate_data": "YQ==", "client_key_data": "YQ=="},
    ],
)
async def test_anything_static_goes_before_a_plugin(static: dict[str, str]) -> None:
    field = user(**static, exec={"apiVersion": V1, "command": "plugin", "interactiveMode": "Never"})

    assert isinstance(identity_source(field, HTTPS, {}), FixedIdentity)


async def test_a_token_file_goes_before_a_token_which_is_the_spare(tmp_path: Path) -> None:
    source = identity_source(user(token="spare", tokenFile=str(tmp_path / "token")), HTTPS, {})
    assert isinstance(source, TokenFile)
    before = await source.current()
    (tmp_path / "token").write_text("one\n")

    source.invalidate(before)
    after = await source.current()

    assert (before.authorization, after.authorization) == ("Bearer spare", "Bearer one")


async def test_a_user_without_credentials_is_anonymous() -> None:
    assert await identity_source(user(), HTTPS, {}).current() == ANONYMOUS


async def test_nothing_that_proves_an_identity_is_sent_over_plain_http() -> None:
    http = Cluster("http://127.0.0.1:8001", Trust())

    assert await identity_source(user(token="hush"), http, {}).current() == ANONYMOUS
    assert await identity_source(plugin_user(), http, {}).current() == ANONYMOUS


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"token": "hush", "username": "a"}, ": .*token or a username"),
        ({"tokenFile": "t", "password": "hush"}, ": .*token or a username"),
        ({"password": "hush"}, ": .*username beside password"),
        ({"client_certificate": "c"}, ": .*client-key or client-key-data"),
        ({"auth_provider": {"name": "gcp"}}, ": auth-provider"),
        ({"token": 1234}, ".token: .*int"),
        ({"token": "hush\n"}, ".token: "),
    ],
)
def test_a_user_that_contradicts_itself_is_an_error(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(CredentialsError, match=rf"^/etc/kube/config: users\[1\].user{named}") as caught:
        identity_source(user(**fields), HTTPS, {})

    assert "hush" not in str(caught.value)


def test_impersonation_is_headers_that_repeat_and_escape() -> None:
    field = user(
        **{"as": "jürgen"}, as_uid="42", as_groups=["a", "b"], as_user_extra={"scopes": ["x", "y"], "ex/a %": ["z"]}
    )

    assert impersonation(field) == (
        ("Impersonate-User", "jürgen"),
        ("Impersonate-Uid", "42"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes", "x"),
        ("Impersonate-Extra-scopes", "y"),
        ("Impersonate-Extra-ex%2Fa%20%25", "z"),
    )
    assert impersonation(user(as_groups=[], as_user_extra={})) == ()


@pytest.mark.parametrize("fields", [{"as_uid": "1"}, {"as_groups": ["a"]}, {"as_user_extra": {"a": ["b"]}}])
def test_groups_without_a_user_to_impersonate_are_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises(CredentialsError, match=r"users\[1\].user: as-uid, as-groups and as-user-extra"):
        impersonation(user(**fields))


def test_a_header_cannot_be_smuggled_in() -> None:
    with pytest.raises(CredentialsError, match="Impersonate-Group: "):
        impersonation(user(**{"as": "a"}, as_groups=["b\r\nImpersonate-Group: system:masters"]))


@pytest.mark.parametrize(
    ("command", "resolved"),
    [("plugin", "plugin"), ("./plugin", "/etc/kube/plugin"), ("bin/plugin", "/etc/kube/bin/plugin"), ("/b/p", "/b/p")],
)
def test_only_a_command_with_a_directory_starts_where_the_kubeconfig_is(command: str, resolved: str) -> None:
    assert plugin_of(plugin_user(command=command)).command == resolved


def test_a_plugin_is_configured_as_written() -> None:
    plugin = plugin_of(
        plugin_user(args=["a", "b"], env=[{"name": "A", "value": "1"}, {"name": "B"}], installHint="hint")
    )

    assert plugin.place == "/etc/kube/config: users[1].user.exec"
    assert plugin.args == ("a", "b")
    assert plugin.env == (("A", "1"), ("B", ""))
    assert plugin.install_hint == "hint"
    assert plugin.timeout == 60
    assert plugin.cluster is None
    assert plugin.cluster_ca is None


def test_a_plugin_gets_the_cluster_info_with_provide_cluster_info() -> None:
    plugin = plugin_of(plugin_user(provideClusterInfo=True))

    assert plugin.cluster == {"server": "https://api"}
    assert plugin.cluster_ca == HTTPS.trust.ca


@pytest.mark.parametrize(
    ("version", "mode", "named"),
    [
        (V1, "Never", None),
        (V1, "IfAvailable", None),
        (V1, "Always", "interactiveMode Always"),
        (V1, "Sometimes", "interactiveMode Never or IfAvailable, found Sometimes"),
        (V1, None, "interactiveMode Never or IfAvailable, found none"),
        (V1BETA1, None, None),
        (V1BETA1, "Always", "interactiveMode Always"),
        ("client.authentication.k8s.io/v1alpha1", "Never", "v1alpha1'"),
        (None, "Never", "apiVersion"),
    ],
)
def test_versions_and_modes_are_supported_or_a_clear_error(
    version: str | None, mode: str | None, named: str | None
) -> None:
    field = plugin_user(apiVersion=version, interactiveMode=mode)

    if named is None:
        assert plugin_of(field).api_version == version
    else:
        with pytest.raises(CredentialsError, match=named):
            plugin_of(field)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"command": ""}, "exec: .*command"),
        ({"args": ["a", 1]}, r"exec.args\[1\]: "),
        ({"env": [{"value": "hush"}]}, r"exec.env\[0\]: .*name"),
        ({"env": {"A": "hush"}}, "exec.env: "),
    ],
)
def test_a_plugin_that_cannot_be_run_is_an_error_with_its_path(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(CredentialsError, match=rf"^/etc/kube/config: users\[1\].user.{named}"):
        plugin_of(plugin_user(**fields))
