"""Compaction of etcd's history, which a cluster does by itself every five minutes."""

import ssl

from gpuruntime.testing.cluster.admin import AdminClient
from gpuruntime.testing.cluster.pki import Pki

__all__ = ["compact_history"]


def compact_history(etcd: str, pki: Pki) -> None:
    """Drop every revision but the newest from the etcd server at this address."""
    context = ssl.create_default_context(cafile=str(pki.authority.certificate))
    context.load_cert_chain(pki.etcd.certificate, pki.etcd.key)
    gateway = AdminClient(etcd, context)
    # Every response contains the newest revision; "AA==" is the key of one zero byte.
    revision = gateway.create("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
    gateway.create("/v3/kv/compaction", {"revision": revision, "physical": True})
