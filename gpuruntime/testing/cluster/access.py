"""Access to a running local cluster, as a value that can be saved to a file and loaded by another process."""

import base64
import os
import ssl
import subprocess
from pathlib import Path
from typing import Any, Self

from attrs import asdict, frozen

from gpuruntime.testing.cluster.admin import AdminClient
from gpuruntime.testing.cluster.components import SCRATCH
from gpuruntime.testing.published_files import publish, read_published

__all__ = ["ClusterAccess", "kubeconfig_document"]

_FILE = "access.json"


@frozen
class ClusterAccess:
    """The address, credentials and files of a running local cluster.

    `kubeconfig` is the administrator's, with a client certificate. `binaries` contains the kubectl of the cluster's
    version. `audit_log` is None if the cluster was started without one.
    """

    server: str
    kubeconfig: Path
    authority: Path
    certificate: Path
    key: Path
    binaries: Path
    audit_log: Path | None

    def save(self, directory: Path) -> None:
        """Write it to `directory` atomically: a reader finds nothing or everything."""
        fields = {name: None if value is None else str(value) for name, value in asdict(self, recurse=False).items()}
        publish(directory / _FILE, fields)

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        """The access to the cluster that runs in `directory`, or None."""
        fields = read_published(directory / _FILE)
        if fields is None:
            return None
        audit_log = fields.pop("audit_log")
        return cls(
            server=fields.pop("server"),
            audit_log=None if audit_log is None else Path(audit_log),
            **{name: Path(path) for name, path in fields.items()},
        )

    @staticmethod
    def withdraw(directory: Path) -> None:
        """Remove the saved access, because the cluster stops."""
        (directory / _FILE).unlink(missing_ok=True)

    def admin(self) -> AdminClient:
        """A client with the administrator's certificate, for the setup of a test."""
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.certificate, self.key)
        return AdminClient(self.server, context)

    @property
    def kubectl_cache(self) -> Path:
        """The value for KUBECACHEDIR: kubectl's discovery cache, which by default is below ~/.kube."""
        return self.kubeconfig.parent / SCRATCH / "kubectl"

    def kubectl(self, *arguments: str, input_text: str | None = None) -> str:
        """Run kubectl as the administrator; returns its standard output.

        Raises:
            subprocess.CalledProcessError: kubectl failed; its standard error is a note of the exception.
        """
        done = subprocess.run(
            [str(self.binaries / "kubectl"), *arguments],
            input=input_text,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self.kubectl_cache)},
        )
        if done.returncode != 0:
            error = subprocess.CalledProcessError(done.returncode, ["kubectl", *arguments], done.stdout, done.stderr)
            error.add_note(done.stderr.strip())
            raise error
        return done.stdout

    def kubeconfig_for(self, token: str, namespace: str = "default") -> dict[str, Any]:
        """A kubeconfig with this bearer token."""
        return kubeconfig_document(self.server, self.authority.read_bytes(), {"token": token}, namespace)


def kubeconfig_document(
    server: str, authority: bytes, user: dict[str, str], namespace: str = "default"
) -> dict[str, Any]:
    """A self-contained kubeconfig with one context: it refers to no other files, so it can be moved and mounted."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    context = {"cluster": "local", "user": "local", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": user}],
        "contexts": [{"name": "local", "context": context}],
    }
