from datetime import UTC, datetime
from typing import Any

from attrs import evolve

from gpuruntime.kube.builtin.coordination import Lease
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.timestamps import format_micros, parse_timestamp


def test_renewing_a_lease_keeps_what_newer_servers_add() -> None:
    wire: dict[str, Any] = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", "namespace": "ns", "resourceVersion": "7"},
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "renewTime": "2026-01-02T03:04:05.000001Z",
            "leaseTransitions": 0,
            "strategy": "OldestEmulationVersion",
        },
    }
    lease = decode(Lease, wire)
    now = datetime(2026, 1, 2, 3, 4, 7, tzinfo=UTC)

    renewed = evolve(lease, spec=evolve(lease.spec, renew_time=format_micros(now)))

    assert encode(renewed) == {**wire, "spec": {**wire["spec"], "renewTime": "2026-01-02T03:04:07.000000Z"}}
    assert lease.spec.renew_time is not None
    assert parse_timestamp(lease.spec.renew_time).microsecond == 1
