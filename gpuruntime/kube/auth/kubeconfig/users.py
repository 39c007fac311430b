"""The user of a kubeconfig: its identity and its impersonation."""

import os
from collections.abc import Mapping
from urllib.parse import quote

from gpuruntime.kube.auth.exec_identity import ExecIdentity
from gpuruntime.kube.auth.exec_plugin import API_VERSIONS, ExecPlugin
from gpuruntime.kube.auth.identity import (
    ANONYMOUS,
    FixedIdentity,
    Identity,
    IdentitySource,
    TokenFile,
    basic,
    bearer,
    header_value,
)
from gpuruntime.kube.auth.kubeconfig.clusters import Cluster
from gpuruntime.kube.auth.kubeconfig.files import Field

__all__ = ["identity_source", "impersonation"]


def identity_source(user: Field, cluster: Cluster, environ: Mapping[str, str]) -> IdentitySource:
    """The identity source of a `users[].user` field, with the precedence of client-go.

    A token file takes precedence over a token, and any static credential over a plugin. A user without any of them is
    anonymous, as the file says. No credential is sent over plain http.

    Raises:
        CredentialsError: a field is missing, has another type, or contradicts another one.
    """
    if user.at("auth-provider") is not None:
        raise user.error("auth-provider is not supported; configure the provider's exec plugin instead")
    static = _static(user)
    plugin = user.at("exec")
    if not cluster.secure:
        return FixedIdentity(ANONYMOUS)
    if static is None and plugin is not None:
        return ExecIdentity(_plugin(plugin, cluster, environ))
    return static or FixedIdentity(ANONYMOUS)


def impersonation(user: Field) -> tuple[tuple[str, str], ...]:
    """The impersonation headers of a `users[].user` field.

    Raises:
        CredentialsError: groups, a uid or extras without a user to impersonate.
    """
    name, uid = user.text("as"), user.text("as-uid")
    groups = user.texts("as-groups")
    extra = user.at("as-user-extra") or Field(user.file, user.path, {})
    if name is None:
        if uid or groups or extra.names():
            raise user.error("as-uid, as-groups and as-user-extra need a user to impersonate; set as")
        return ()
    headers = [("Impersonate-User", name)]
    if uid is not None:
        headers.append(("Impersonate-Uid", uid))
    headers.extend(("Impersonate-Group", group) for group in groups)
    for key in extra.names():
        header = f"Impersonate-Extra-{quote(key, safe=_HEADER_NAME)}"
        headers.extend((header, value) for value in extra.texts(key))
    return tuple((header, header_value(value, f"{user.file}: {user.path}: {header}")) for header, value in headers)


# Characters of a header name besides letters and digits; the server decodes escapes of all others.
_HEADER_NAME = "!#$&'*+-.^_`|~"


def _static(user: Field) -> IdentitySource | None:
    token, token_file = user.text("token"), user.beside("tokenFile")
    username, password = user.text("username"), user.text("password")
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if (token or token_file) and (username or password):
        raise user.error("expected a token or a username and password, found both; remove one of them")
    if password and not username:
        raise user.error("expected username beside password, found none")
    if certificate is not None and key is None:
        raise user.error("expected client-key or client-key-data beside the client certificate, found none")
    authorization = None
    if token is not None:
        authorization = bearer(token, f"{user.file}: {user.path}.token")
    elif username is not None:
        authorization = basic(username, password or "")
    identity = Identity(authorization, certificate, key if certificate else None)
    if token_file is not None:
        return TokenFile(token_file, identity)
    return FixedIdentity(identity) if identity != ANONYMOUS else None


def _plugin(plugin: Field, cluster: Cluster, environ: Mapping[str, str]) -> ExecPlugin:
    api_version = plugin.required_text("apiVersion")
    if api_version not in API_VERSIONS:
        raise plugin.error(f"apiVersion {api_version!r} is not supported, expected one of {', '.join(API_VERSIONS)}")
    _check_interactive_mode(plugin, api_version)
    command = plugin.required_text("command")
    provide_cluster = plugin.flag("provideClusterInfo")
    return ExecPlugin(
        place=f"{plugin.file}: {plugin.path}",
        api_version=api_version,
        # A bare name is looked up on PATH; a relative path with a directory starts at the kubeconfig.
        command=str(plugin.file.parent / command) if os.sep in command else command,
        args=plugin.texts("args"),
        env=tuple((entry.required_text("name"), entry.text("value") or "") for entry in plugin.entries("env")),
        environ=environ,
        install_hint=plugin.text("installHint"),
        cluster=cluster.exec_info() if provide_cluster else None,
        cluster_ca=cluster.trust.ca if provide_cluster else None,
    )


def _check_interactive_mode(plugin: Field, api_version: str) -> None:
    mode = plugin.text("interactiveMode") or ("IfAvailable" if api_version.endswith("/v1beta1") else None)
    if mode == "Always":
        raise plugin.error("interactiveMode Always is not supported: plugins run without a terminal")
    if mode not in {"Never", "IfAvailable"}:
        raise plugin.error(f"expected interactiveMode Never or IfAvailable, found {mode or 'none'}")
