"""The cluster of a kubeconfig: the address of the server and how to verify it."""

from typing import Any
from urllib.parse import urlsplit

import orjson
from attrs import field, frozen

from gpuruntime.kube.auth.kubeconfig.files import Field
from gpuruntime.kube.auth.tls import Trust

__all__ = ["Cluster", "read_cluster"]

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


@frozen
class Cluster:
    """One cluster. `exec_config` is its extension for exec plugins."""

    server: str
    trust: Trust
    proxy: str | None = field(default=None, repr=False)
    tls_server_name: str | None = None
    exec_config: Any = field(default=None, repr=False)

    @property
    def secure(self) -> bool:
        return self.server.startswith("https://")

    def exec_info(self) -> dict[str, Any]:
        """The cluster info of the exec plugin protocol, without the CA."""
        info = {
            "server": self.server,
            "tls-server-name": self.tls_server_name,
            "insecure-skip-tls-verify": not self.trust.verify,
            "proxy-url": self.proxy,
            "config": self.exec_config,
        }
        return {name: value for name, value in info.items() if value is not None and value is not False}


def read_cluster(cluster: Field) -> Cluster:
    """Read a `clusters[].cluster` field.

    Raises:
        CredentialsError: a field is missing, has another type, or contradicts another one.
    """
    trust = Trust(ca=cluster.pem("certificate-authority"), verify=not cluster.flag("insecure-skip-tls-verify"))
    if trust.ca is not None and not trust.verify:
        raise cluster.error("insecure-skip-tls-verify is set together with a certificate authority; remove one of them")
    return Cluster(
        server=_server(cluster),
        trust=trust,
        proxy=_proxy(cluster),
        tls_server_name=cluster.text("tls-server-name"),
        exec_config=_exec_config(cluster),
    )


def _server(cluster: Field) -> str:
    server = cluster.required_text("server")
    problem = Field(cluster.file, f"{cluster.path}.server", server).error("expected an http:// or https:// address")
    try:
        parts = urlsplit(server)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise problem from error
    if parts.scheme not in {"http", "https"} or not host:
        raise problem
    return parts._replace(query="", fragment="").geturl().rstrip("/")


def _proxy(cluster: Field) -> str | None:
    proxy = cluster.text("proxy-url")
    if proxy is None:
        return None
    scheme = proxy.partition("://")[0]
    if scheme not in {"http", "https"}:
        found = "socks5, which is not supported" if scheme.startswith("socks") else "another scheme"
        raise Field(cluster.file, f"{cluster.path}.proxy-url", proxy).error(
            f"expected an http:// or https:// proxy, found {found}"
        )
    return proxy


def _exec_config(cluster: Field) -> Any:
    for extension in cluster.entries("extensions"):
        if extension.text("name") == _EXEC_EXTENSION:
            config = extension.at("extension")
            return None if config is None else _json(config)
    return None


def _json(config: Field) -> Any:
    try:
        orjson.dumps(config.value)
    except orjson.JSONEncodeError as error:
        raise config.error(f"expected JSON values: {error}") from error
    return config.value
