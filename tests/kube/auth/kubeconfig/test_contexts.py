"""Kubeconfigs mean what they mean to the official client, and to client-go where that differs."""

import base64
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from attrs import frozen
from kubernetes.client import Configuration
from kubernetes.config import load_kube_config

from gpuruntime.kube.auth.credentials import Credentials, CredentialsError
from gpuruntime.kube.auth.infer import infer
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.auth.rotating_credentials import RotatingCredentials

if TYPE_CHECKING:
    from tests.kube.conftest import Authority


@frozen
class Meaning:
    """What a kubeconfig comes down to."""

    host: str
    ca: bytes | None
    certificate: bytes | None
    key: bytes | None
    verify: bool
    authorization: str | None
    tls_server_name: str | None
    proxy: str | None


def official(files: str, context: str | None, temporary: Path) -> Meaning:
    configuration = Configuration()
    load_kube_config(files, context, configuration, persist_config=False, temp_file_path=str(temporary))

    def content(path: str | None) -> bytes | None:
        return Path(path).read_bytes() if path else None

    return Meaning(
        host=configuration.host,
        ca=content(configuration.ssl_ca_cert),
        certificate=content(configuration.cert_file),
        key=content(configuration.key_file),
        verify=configuration.verify_ssl,
        authorization=configuration.api_key.get("BearerToken"),
        tls_server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )


async def ours(files: str, context: str | None) -> Meaning:
    credentials = from_kubeconfig(context=context, environ={"KUBECONFIG": files})
    authorization = await credentials.authorize()
    assert isinstance(credentials, RotatingCredentials)
    parts = credentials._tls._current[0] if credentials._tls and credentials._tls._current else (None, None, None)
    ca, certificate, key = (part.read() if part else None for part in parts)
    return Meaning(
        host=credentials.endpoint.server,
        ca=ca,
        certificate=certificate,
        key=key,
        verify=not credentials._tls or credentials._tls._trust.verify,
        authorization=authorization.headers.get("Authorization"),
        tls_server_name=credentials.endpoint.tls_server_name,
        proxy=credentials.endpoint.proxy,
    )


@pytest.fixture
def home(tmp_path: Path, authority: "Authority", other_authority: "Authority", monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two subdirectories that hold files of the same names and different content."""
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    for directory, issuer in (("one", authority), ("two", other_authority)):
        place = tmp_path / directory
        place.mkdir()
        pair = issuer.issue(f"alice-{directory}")
        (place / "ca.crt").write_bytes(issuer.certificate)
        (place / "tls.crt").write_bytes(pair.certificate)
        (place / "tls.key").write_bytes(pair.key)
        (place / "token").write_text(f"from-file-{directory}")
    return tmp_path


def filled(fields: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The fields, with DATA:<file> and PATH:<file> replaced by the file's base64 and its absolute path."""
    values = dict(fields)
    for name, value in fields.items():
        if isinstance(value, str) and value.startswith("DATA:"):
            values[name] = base64.b64encode((directory / value[5:]).read_bytes()).decode()
        elif isinstance(value, str) and value.startswith("PATH:"):
            values[name] = str(directory / value[5:])
    return values


def write(
    directory: Path, cluster: Mapping[str, Any] | None, user: Mapping[str, Any] | None, current: str | None = "main"
) -> str:
    document: dict[str, Any] = {"contexts": [{"name": current, "context": {"cluster": "c", "user": "u"}}]}
    if cluster is not None:
        document["clusters"] = [{"name": "c", "cluster": filled({"server": "https://api:6443", **cluster}, directory)}]
    if user is not None:
        document["users"] = [{"name": "u", "user": filled(user, directory)}]
    if current is None:
        document["contexts"] = []
    else:
        document["current-context"] = current
    path = directory / "config"
    path.write_text(yaml.safe_dump(document))
    return str(path)


CLUSTERS: dict[str, dict[str, Any]] = {
    "system authorities": {},
    "slash at the end": {"server": "https://api:6443/"},
    "path in the address": {"server": "https://rancher/k8s/clusters/c-1"},
    "inline authority": {"certificate-authority-data": "DATA:ca.crt"},
    "relative authority": {"certificate-authority": "ca.crt"},
    "dotted authority": {"certificate-authority": "../one/ca.crt"},
    "absolute authority": {"certificate-authority": "PATH:ca.crt"},
    "both authorities": {"certificate-authority": "missing", "certificate-authority-data": "DATA:ca.crt"},
    "insecure": {"insecure-skip-tls-verify": True},
    "explicitly secure": {"insecure-skip-tls-verify": False, "certificate-authority": "ca.crt"},
    "server name": {"tls-server-name": "kubernetes", "certificate-authority": "ca.crt"},
    "proxy": {"proxy-url": "http://proxy:3128"},
    "no compression": {"disable-compression": True},
}
USERS: dict[str, dict[str, Any]] = {
    "nobody": {},
    "token": {"token": "one"},
    "relative token file": {"tokenFile": "token"},
    "absolute token file": {"tokenFile": "PATH:token"},
    "password": {"username": "alice", "password": "s:e cret"},
    "inline certificate": {"client-certificate-data": "DATA:tls.crt", "client-key-data": "DATA:tls.key"},
    "certificate files": {"client-certificate": "tls.crt", "client-key": "PATH:tls.key"},
    "mixed certificate": {"client-certificate": "tls.crt", "client-key-data": "DATA:tls.key"},
    "certificate and token": {"client-certificate": "tls.crt", "client-key": "tls.key", "token": "one"},
    "inline beats file": {
        "client-certificate": "missing",
        "client-certificate-data": "DATA:tls.crt",
        "client-key": "missing",
        "client-key-data": "DATA:tls.key",
    },
}


@pytest.mark.parametrize(("cluster", "user"), list(itertools.product(CLUSTERS, USERS)))
async def test_a_kubeconfig_means_what_it_means_to_the_official_client(home: Path, cluster: str, user: str) -> None:
    files = write(home / "one", CLUSTERS[cluster], USERS[user])

    assert await ours(files, None) == official(files, None, home / "temporary")


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one"), ("missing", "two")])
async def test_merged_files_mean_what_they_mean_to_the_official_client(home: Path, order: tuple[str, str]) -> None:
    write(home / "one", {"certificate-authority": "ca.crt"}, {"tokenFile": "token"})
    write(home / "two", {"certificate-authority": "ca.crt", "server": "https://two"}, {"tokenFile": "token"})
    files = ":".join(str(home / directory / "config") for directory in order)

    assert await ours(files, None) == official(files, None, home / "temporary")


async def test_a_named_context_means_what_it_means_to_the_official_client(home: Path) -> None:
    files = f"{write(home / 'one', {}, {'token': 'one'})}:{write(home / 'two', None, None, current='other')}"

    assert await ours(files, "other") == official(files, "other", home / "temporary")


@frozen
class Difference:
    """Where client-go and the official Python client differ, we are with client-go."""

    reason: str
    cluster: dict[str, Any]
    user: dict[str, Any]
    theirs: str | None
    ours: str | None = None
    error: str | None = None


DIFFERENCES = [
    Difference(
        "client-go trims token files",
        {},
        {"tokenFile": "token-with-line-break"},
        theirs="Bearer one\n",
        ours="Bearer one",
    ),
    Difference(
        "client-go: the token file takes precedence over the token",
        {},
        {"token": "inline", "tokenFile": "token"},
        theirs="Bearer inline",
        ours="Bearer from-file-one",
    ),
    Difference(
        "client-go sends a username with an empty password",
        {},
        {"username": "alice"},
        theirs=None,
        ours="Basic YWxpY2U6",
    ),
    Difference(
        "client-go encodes names as UTF-8, urllib3 as Latin-1",
        {},
        {"username": "ü", "password": ""},
        theirs="Basic /Do=",
        ours="Basic w7w6",
    ),
    Difference(
        "client-go sends nothing that proves an identity over plain http",
        {"server": "http://api:8080"},
        {"token": "one"},
        theirs="Bearer one",
        ours=None,
    ),
    Difference(
        "client-go refuses two methods of authentication",
        {},
        {"token": "one", "username": "alice", "password": "secret"},
        theirs="Bearer one",
        error="token or a username",
    ),
    Difference(
        "client-go refuses an authority that would not be asked",
        {"insecure-skip-tls-verify": True, "certificate-authority": "ca.crt"},
        {"token": "one"},
        theirs="Bearer one",
        error="insecure-skip-tls-verify",
    ),
    Difference(
        "client-go refuses base64 with other characters in it",
        {"certificate-authority-data": "!!!"},
        {"token": "one"},
        theirs="Bearer one",
        error="certificate-authority-data: ",
    ),
    Difference(
        "client-go: a failing plugin fails the request, the other goes on without a name",
        {},
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false", "interactiveMode": "Never"}},
        theirs=None,
        error="'false' .*code 1",
    ),
    Difference(
        "client-go: groups without a user to act as are an error",
        {},
        {"token": "one", "as-groups": ["system:masters"]},
        theirs="Bearer one",
        error="impersonate",
    ),
]


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.reason)
async def test_where_the_two_clients_differ_we_are_with_client_go(home: Path, difference: Difference) -> None:
    (home / "one" / "token-with-line-break").write_text("one\n")
    files = write(home / "one", difference.cluster, difference.user)

    theirs = official(files, None, home / "temporary")

    assert theirs.authorization == difference.theirs
    if difference.error is None:
        assert (await ours(files, None)).authorization == difference.ours
    else:
        with pytest.raises(CredentialsError, match=difference.error):
            await ours(files, None)


def rename_cluster(path: Path, name: str) -> None:
    document = yaml.safe_load(path.read_text())
    document["contexts"][0]["context"]["cluster"] = name
    document["clusters"][0]["name"] = name
    path.write_text(yaml.safe_dump(document))


async def test_unlike_the_official_client_the_first_current_context_wins(home: Path) -> None:
    first = write(home / "one", {"server": "https://one"}, {"token": "one"}, current="first")
    second = write(home / "two", {"server": "https://two"}, {"token": "two"}, current="second")
    rename_cluster(Path(second), "d")

    files = f"{first}:{second}"

    assert official(files, None, home / "temporary").host == "https://two"
    assert (await ours(files, None)).host == "https://one"


async def test_unlike_the_official_client_files_of_a_user_are_beside_the_user(home: Path) -> None:
    write(home / "one", {}, None)
    write(home / "two", None, {"client-certificate": "tls.crt", "client-key": "tls.key"})
    files = f"{home}/one/config:{home}/two/config"

    assert official(files, None, home / "temporary").certificate == (home / "one" / "tls.crt").read_bytes()
    assert (await ours(files, None)).certificate == (home / "two" / "tls.crt").read_bytes()


def namespace(credentials: Credentials) -> str:
    return credentials.endpoint.namespace


def test_the_namespace_is_that_of_the_context(home: Path) -> None:
    path = Path(write(home / "one", {}, {}))
    document = yaml.safe_load(path.read_text())
    document["contexts"].append({"name": "team", "context": {"cluster": "c", "namespace": "team"}})
    path.write_text(yaml.safe_dump(document))

    assert namespace(from_kubeconfig(path)) == "default"
    assert namespace(from_kubeconfig(path, "team")) == "team"


async def test_impersonation_goes_with_each_request(home: Path) -> None:
    files = write(home / "one", {}, {"token": "one", "as": "bob", "as-groups": ["a", "b"]})

    authorization = await from_kubeconfig(Path(files)).authorize()

    assert sorted(authorization.headers.items()) == [
        ("Authorization", "Bearer one"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-User", "bob"),
    ]


def test_an_unknown_context_is_an_error_that_lists_those_there_are(home: Path) -> None:
    files = write(home / "one", {}, {})

    with pytest.raises(CredentialsError, match=r"config: .*'x'.* main$"):
        from_kubeconfig(Path(files), "x")


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"cluster": None}, r"contexts\[0\].context: .*cluster 'c'"),
        ({"user": None}, r"contexts\[0\].context: .*user 'u'"),
        ({"current": None}, "current-context"),
    ],
)
def test_a_context_without_its_cluster_or_user_is_an_error(home: Path, broken: dict[str, None], named: str) -> None:
    whole: dict[str, Any] = {"cluster": {}, "user": {}, "current": "main"}
    files = write(home / "one", **{**whole, **broken})

    with pytest.raises(CredentialsError, match=named):
        from_kubeconfig(Path(files))


def test_an_explicit_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=f"{tmp_path}/config"):
        from_kubeconfig(tmp_path / "config")


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_credentials_are_found_in_the_usual_order(home: Path) -> None:
    listed = write(home / "one", {"server": "https://listed"}, {})
    (home / ".kube").mkdir()
    usual = write(home / ".kube", {"server": "https://usual"}, {})
    everywhere = {"KUBECONFIG": listed, "HOME": str(home), **POD}

    from_list = infer(everywhere, home / "one")
    from_home = infer({**everywhere, "KUBECONFIG": ""}, home / "one")
    Path(usual).unlink()
    from_pod = infer({**everywhere, "KUBECONFIG": ""}, home / "one")

    servers = [credentials.endpoint.server for credentials in (from_list, from_home, from_pod)]
    assert servers == ["https://listed", "https://usual", "https://10.0.0.1:443"]


def test_what_was_asked_for_is_not_replaced_by_something_else(home: Path) -> None:
    with pytest.raises(CredentialsError, match=f"{home}/nowhere"):
        infer({"KUBECONFIG": f"{home}/nowhere", **POD}, home / "one")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_home_directory_of_another_user_is_skipped(home: Path) -> None:
    (home / "closed").mkdir(mode=0)

    credentials = infer({"HOME": str(home / "closed"), **POD}, home / "one")

    assert credentials.endpoint.server == "https://10.0.0.1:443"


@pytest.mark.parametrize("environ", [{}, {"HOME": "/nonexistent"}])
def test_no_credentials_are_an_error_that_says_what_was_tried(environ: dict[str, str]) -> None:
    with pytest.raises(CredentialsError, match="KUBECONFIG"):
        infer(environ)
