"""The credentials of a context of kubeconfig files."""

import os
from collections.abc import Mapping
from pathlib import Path

from gpuruntime.kube.auth.credentials import Credentials, CredentialsError, Endpoint
from gpuruntime.kube.auth.kubeconfig.clusters import read_cluster
from gpuruntime.kube.auth.kubeconfig.files import Field, Kubeconfig, load
from gpuruntime.kube.auth.kubeconfig.users import identity_source, impersonation
from gpuruntime.kube.auth.rotating_credentials import RotatingCredentials

__all__ = ["default_files", "from_kubeconfig"]


def from_kubeconfig(
    path: str | os.PathLike[str] | None = None,
    context: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Credentials:
    """Credentials of a context, the current one if none is named.

    Without a path the files are those of KUBECONFIG, else ~/.kube/config. Of several files the first to define a
    context, cluster, user or current context wins; files that do not exist are skipped. The files are read once; the
    token, certificate and CA files that they name are read again when they change. Plugins get `environ` as their
    environment.

    Raises:
        CredentialsError: there is no file, no such context, or a field is invalid.
        TypeError: `path` is not a path.
    """
    config = load(default_files(environ) if path is None else (_file(path),))
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


def _file(path: str | os.PathLike[str]) -> Path:
    try:
        file = os.fspath(path)
    except TypeError:
        file = ""
    if not file or not isinstance(file, str):
        raise TypeError(f"expected the path of a kubeconfig file, or None for the default files, got {path!r}")
    return Path(file)


def default_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files of KUBECONFIG, else ~/.kube/config."""
    listed = environ.get("KUBECONFIG")
    if listed:
        return tuple(Path(name) for name in listed.split(os.pathsep) if name)
    home = environ.get("HOME")
    return (Path(home, ".kube", "config"),) if home else ()


def _context(config: Kubeconfig, name: str | None) -> Field:
    there_are = f"its contexts are: {', '.join(sorted(config.contexts)) or 'none'}"
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
        raise context.error(f"there is no {kind} {name!r}; the {kind}s are: {names}")
    return entries[name]
