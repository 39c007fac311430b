"""What an audit log proves about those who should write one at a time."""

import json
from pathlib import Path
from typing import Any

from e2e.audit_trail import AuditTrail, made_twice, out_of_term

ACCOUNT = "controller"
LEASE = "lease"


def line(second: int, replica: str, verb: str, resource: str, name: str, code: int = 200) -> dict[str, Any]:
    """A request that was received at a second and answered half a second later."""
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


def test_who_writes_without_the_lease_is_found(tmp_path: Path) -> None:
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

    wrong = out_of_term(writes, ACCOUNT, LEASE)

    assert [write.name for write in wrong] == ["early", "late"]


def test_a_write_on_its_way_while_the_lease_changes_hands_is_of_either_holder(tmp_path: Path) -> None:
    writes = trail(
        tmp_path,
        line(1, "one", "update", "leases", LEASE),
        line(2, "two", "update", "leases", LEASE),
        line(2, "one", "update", "deployments", "on its way"),
        line(2, "two", "update", "deployments", "at once"),
        line(2, "three", "update", "deployments", "never"),
    ).writes()

    wrong = out_of_term(writes, ACCOUNT, LEASE)

    assert [write.name for write in wrong] == ["never"]


def test_what_is_made_although_it_is_there_is_found(tmp_path: Path) -> None:
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

    wrong = made_twice(writes, ACCOUNT)

    assert wrong == [("deployments", "place", "once"), ("services", "place", "once")]
