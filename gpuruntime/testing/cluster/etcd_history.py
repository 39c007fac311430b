"""Making etcd forget: what a busy cluster does by itself after five minutes."""

import ssl

from gpuruntime.testing.cluster.admin import AdminClient
from gpuruntime.testing.cluster.pki import Pki

__all__ = ["compact_history"]


def compact_history(etcd: str, pki: Pki) -> None:
    """Drop every revision but the newest from the etcd at this address."""
    context = ssl.create_default_context(cafile=str(pki.authority.certificate))
    context.load_cert_chain(pki.etcd.certificate, pki.etcd.key)
    gateway = AdminClient(etcd, context)
    # A read of any key tells the newest revision; "AA==" is the key of one zero byte.
    revision = gateway.create("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
    gateway.create("/v3/kv/compaction", {"revision": revision, "physical": True})
