"""The certificates of a cluster as file paths, usable without the package `cryptography`."""

from base64 import b64encode
from pathlib import Path

from attrs import frozen

__all__ = ["KUBELET_CLIENT", "KeyPair", "Pki"]

# The user that the API server is at a kubelet.
KUBELET_CLIENT = "kube-apiserver-kubelet-client"


@frozen
class KeyPair:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path

    def inline(self) -> dict[str, str]:
        """The user entry of a kubeconfig that authenticates with this pair."""
        return {
            "client-certificate-data": b64encode(self.certificate.read_bytes()).decode(),
            "client-key-data": b64encode(self.key.read_bytes()).decode(),
        }


@frozen
class Pki:
    """Every certificate of a cluster; `tokens` signs ServiceAccount tokens, its `certificate` is a bare public key."""

    authority: KeyPair
    apiserver: KeyPair
    etcd: KeyPair
    admin: KeyPair
    controller_manager: KeyPair
    scheduler: KeyPair
    kwok: KeyPair
    kubelet_client: KeyPair
    tokens: KeyPair
