"""The audit trail detects writes without the lease."""

import json
from pathlib import Path
from typing import Any

from e2e.audit_trail import AuditTrail, duplicate_creations, writes_without_lease

ACCOUNT = "controller"
LEASE = "lease"


def line(second: int, replica: str, verb: str, resource: str, name: str, code: int = 200) -> dict[str, Any]:
    """A request received at `second` and completed half a second later."""
    credential = {"authentication.kubernetes.io/credential-id": [f"JTI={replica}"]}
    return {
        "stage": "ResponseComplete",
        "requestReceivedTimestamp": f"2026-01-01T00:00:{second:02}.000000Z",
        "stageTimestamp": f"2026-01-01T00:00:{second:02}.500000Z",
        "user": {"username": f"system:serviceaccount:system:{ACCOUNT}", "extra": credential},
        "verb": verb,
        "objectRef": {"resource": resource, "namespace": "place", "name": name},
        "responseStatus": {"code": code},
    }


def trail(path: Path, *lines: dict[str, Any]) -> AuditTrail:
    log = path / "audit.log"
    log.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in lines) + '{"stage":"Resp')
    return AuditTrail(log)


def test_writes_without_the_lease_are_found(tmp_path: Path) -> None:
    writes = trail(
        tmp_path,
        line(1, "one", "create", "leases", LEASE, 201),
        line(2, "one", "create", "deployments", "fine", 201),
        line(3, "two", "update", "deployments", "early"),
        line(4, "two", "update", "leases", LEASE),
        line(5, "two", "update", "deployments", "fine"),
        line(6, "one", "update", "deployments", "late"),
        line(7, "one", "update", "deployments", "refused", 409),
        line(8, "one", "create", "events", "told", 201),
    ).writes()

    wrong = writes_without_lease(writes, ACCOUNT, LEASE)

    assert [write.name for write in wrong] == ["early", "late"]


def test_a_write_during_a_change_of_the_holder_may_be_of_either_holder(tmp_path: Path) -> None:
    writes = trail(
        tmp_path,
        line(1, "one", "update", "leases", LEASE),
        line(2, "two", "update", "leases", LEASE),
        line(2, "one", "update", "deployments", "on its way"),
        line(2, "two", "update", "deployments", "at once"),
        line(2, "three", "update", "deployments", "never"),
    ).writes()

    wrong = writes_without_lease(writes, ACCOUNT, LEASE)

    assert [write.name for write in wrong] == ["never"]


def test_duplicate_creations_are_found(tmp_path: Path) -> None:
    writes = trail(
        tmp_path,
        line(1, "one", "create", "deployments", "once", 201),
        line(2, "one", "create", "deployments", "again", 201),
        line(3, "one", "delete", "deployments", "again"),
        line(4, "one", "create", "deployments", "again", 201),
        line(5, "two", "create", "deployments", "once", 409),
        line(6, "two", "create", "services", "once", 201),
        line(7, "one", "create", "services", "once", 201),
    ).writes()

    wrong = duplicate_creations(writes, ACCOUNT)

    assert wrong == [("deployments", "place", "once"), ("services", "place", "once")]


def test_a_pod_is_one_process_also_when_its_token_is_renewed(tmp_path: Path) -> None:
    lines = [line(1, "one", "create", "deployments", "a", 201), line(2, "renewed", "create", "deployments", "b", 201)]
    for one in lines:
        one["user"]["extra"]["authentication.kubernetes.io/pod-uid"] = ["the pod"]

    assert [write.credential for write in trail(tmp_path, *lines).writes()] == ["the pod", "the pod"]
