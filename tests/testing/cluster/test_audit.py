import json
from pathlib import Path
from typing import Any

from gpuruntime.testing.cluster.audit import AuditLog


def line(audit_id: str, stage: str) -> bytes:
    event: dict[str, Any] = {
        "auditID": audit_id,
        "stage": stage,
        "verb": "create",
        "user": {"username": "alice"},
        "requestURI": "/api/v1/namespaces/here/configmaps",
        "objectRef": {"resource": "configmaps", "namespace": "here", "name": "one", "apiVersion": "v1"},
        "responseStatus": {"code": 201},
    }
    return json.dumps(event).encode() + b"\n"


def test_a_line_that_is_incomplete_when_the_recording_begins_is_skipped(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    before = line("before", "RequestReceived")
    log.write_bytes(before[:50])

    with AuditLog(log).recording() as recording, log.open("ab") as file:
        file.write(before[50:] + line("inside", "RequestReceived") + line("inside", "ResponseComplete"))

    assert [request.resource for request in recording.requests] == ["configmaps"]


def test_lines_from_before_the_recording_are_skipped(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(line("before", "RequestReceived") + line("before", "ResponseComplete"))

    with AuditLog(log).recording() as recording:
        pass

    assert recording.requests == []
