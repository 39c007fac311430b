"""Two candidates whose ways to the API server break in turns: by the audit log there are never two leaders."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gpuruntime.control.leadership.election import LeaseElection
from gpuruntime.control.leadership.election_terms import ElectionTiming, Term
from gpuruntime.control.leadership.fence import Fence
from gpuruntime.control.leadership.fenced_transport import FencedTransport
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.retries import RetryPolicy
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.cluster.access import kubeconfig_document
from gpuruntime.testing.faults import ClientCertificate, DropRequests, FaultProxy, StallRequests
from tests.control.scenes import eventually

TIMING = ElectionTiming(lease=3, renew=2.0, retry=0.5)


@asynccontextmanager
async def candidate(
    name: str, access: ClusterAccess, namespace: str, directory: Path
) -> AsyncIterator[tuple[LeaseElection, FaultProxy]]:
    """A replica that writes all the time while it leads; its user agent is its name."""
    identity = ClientCertificate(access.certificate, access.key)
    async with FaultProxy(access.server, access.authority, identity=identity) as proxy:
        kubeconfig = directory / f"{name}.kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_document(proxy.url, b"", {})))
        credentials = from_kubeconfig(kubeconfig)
        fence = Fence()
        async with (
            Transport(credentials, user_agent=name, retries=RetryPolicy.none()) as writing,
            Transport(credentials, user_agent=name, retries=RetryPolicy.none()) as renewing,
        ):
            fenced = FencedTransport(writing, fence)

            async def lead(_term: Term) -> None:
                path = f"/api/v1/namespaces/{namespace}/configmaps/journal"
                while True:
                    try:
                        await fenced.send(
                            Request(
                                "PATCH", path, body=b'{"data":{"by":"x"}}', content_type="application/merge-patch+json"
                            )
                        )
                    except KubeError:
                        await asyncio.sleep(0.1)
                    await asyncio.sleep(0.01)

            election = LeaseElection(
                Client(renewing, field_manager=name),
                name="flap",
                namespace=namespace,
                identity=name,
                fence=fence,
                timing=TIMING,
            )
            campaign = asyncio.create_task(election.run(lead))
            try:
                yield election, proxy
            finally:
                campaign.cancel()
                await asyncio.wait([campaign])


def patches_through(proxy: FaultProxy) -> int:
    return sum(write.call.resource == "configmaps" for write in proxy.log.writes)


async def test_every_writer_holds_the_lease_by_the_audit_log(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_audit: AuditLog, tmp_path: Path
) -> None:
    kube_cluster.admin().create(f"/api/v1/namespaces/{kube_namespace}/configmaps", {"metadata": {"name": "journal"}})

    with kube_audit.recording() as seen:
        async with (
            candidate("first", kube_cluster, kube_namespace, tmp_path) as one,
            candidate("second", kube_cluster, kube_namespace, tmp_path) as two,
        ):
            for fault in (DropRequests(), StallRequests(), DropRequests(), StallRequests()):
                await eventually(lambda: one[0].is_leader or two[0].is_leader)
                (_, broken), (other, _) = (one, two) if one[0].is_leader else (two, one)
                written = patches_through(broken)
                await eventually(lambda broken=broken, written=written: patches_through(broken) > written)  # type: ignore[misc]  # mypy: lambda defaults
                with broken.inject(fault):
                    await eventually(lambda other=other: other.is_leader)  # type: ignore[misc]  # mypy: lambda defaults

    holder, writers = "", []
    for write in sorted(seen.writes(namespace=kube_namespace), key=lambda one: one.received):
        if write.resource == "leases":
            holder = write.user_agent
        elif write.resource == "configmaps" and write.verb == "patch":
            writers.append((holder, write.user_agent))
    assert {writer for _, writer in writers} == {"first", "second"}
    assert all(holder == writer for holder, writer in writers)
