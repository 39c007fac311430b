"""Credentials from kubeconfig files, and the search for credentials wherever they usually are."""

import os
from collections.abc import Mapping
from pathlib import Path

from gpuruntime.kube.auth.credentials import Credentials, CredentialsError, Endpoint
from gpuruntime.kube.auth.in_cluster import SERVICE_ACCOUNT, in_cluster
from gpuruntime.kube.auth.kubeconfig.clusters import read_cluster
from gpuruntime.kube.auth.kubeconfig.files import Field, Kubeconfig, load
from gpuruntime.kube.auth.kubeconfig.users import identity_source, impersonation
from gpuruntime.kube.auth.rotating_credentials import RotatingCredentials

__all__ = ["from_kubeconfig", "infer"]


def from_kubeconfig(
    path: str | os.PathLike[str] | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Credentials:
    """Credentials of a context, the current one if none is named.

    Without a path the files are those of KUBECONFIG, else ~/.kube/config. Of several files the first to define a
    context, cluster, user or current context wins; files that do not exist are skipped. The files are read once; the
    token, certificate and authority files that they name are followed when they change. Plugins get `environ` as
    their environment.

    Raises:
        CredentialsError: no file, no such context, or a field that cannot be used.
        TypeError: the path is none.
    """
    config = load(_usual_files(environ) if path is None else (_file(path),))
    chosen = _context(config, context)
    cluster = read_cluster(_named(config.clusters, chosen, "cluster"))
    user = _named(config.users, chosen, "user") if chosen.text("user") else Field(chosen.file, chosen.path, {})
    return RotatingCredentials(
        Endpoint(
            server=cluster.server,
            namespace=chosen.text("namespace") or "default",
            proxy=cluster.proxy,
            tls_server_name=cluster.tls_server_name,
        ),
        identity_source(user, cluster, environ),
        cluster.trust,
        impersonation(user),
    )


def infer(environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> Credentials:
    """The credentials of this process: of KUBECONFIG if it is set, else of ~/.kube/config, else of the pod.

    Raises:
        CredentialsError: there are none, or the first ones found cannot be used; there is no anonymous fallback.
    """
    files = _usual_files(environ)
    if environ.get("KUBECONFIG") or any(map(_is_there, files)):
        return from_kubeconfig(environ=environ)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(service_account, environ)
    tried = ", ".join(map(str, files)) or "no ~/.kube/config as HOME is not set"
    raise CredentialsError(
        f"no credentials: KUBECONFIG is not set, {tried} is not there, and this is no pod "
        "(KUBERNETES_SERVICE_HOST is not set); set KUBECONFIG or run in a cluster"
    )


def _file(path: str | os.PathLike[str]) -> Path:
    try:
        file = os.fspath(path)
    except TypeError:
        file = ""
    if not file or not isinstance(file, str):
        raise TypeError(f"expected the path of a kubeconfig file, or None for the usual ones, got {path!r}")
    return Path(file)


def _is_there(file: Path) -> bool:
    try:
        return file.exists()
    except PermissionError:
        # In a container HOME often belongs to somebody else.
        return False


def _usual_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    listed = environ.get("KUBECONFIG")
    if listed:
        return tuple(Path(name) for name in listed.split(os.pathsep) if name)
    home = environ.get("HOME")
    return (Path(home, ".kube", "config"),) if home else ()


def _context(config: Kubeconfig, name: str | None) -> Field:
    there_are = f"the contexts there are: {', '.join(sorted(config.contexts)) or 'none'}"
    files = ", ".join(map(str, config.files))
    wanted = name or config.current_context
    if wanted is None:
        raise CredentialsError(f"{files}: current-context is not set; name a context, {there_are}")
    if wanted not in config.contexts:
        origin = "" if name else "current-context: "
        raise CredentialsError(f"{files}: {origin}there is no context {wanted!r}; {there_are}")
    return config.contexts[wanted]


def _named(entries: Mapping[str, Field], context: Field, kind: str) -> Field:
    name = context.required_text(kind)
    if name not in entries:
        names = ", ".join(sorted(entries)) or "none"
        raise context.error(f"there is no {kind} {name!r}; the {kind}s there are: {names}")
    return entries[name]
