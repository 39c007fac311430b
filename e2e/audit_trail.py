"""The writes in the audit log of a cluster, by process and time."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from attrs import frozen

__all__ = ["AuditTrail", "Write", "duplicate_creations", "lease_writes", "writes_without_lease"]

_WRITES: Final = frozenset({"create", "update", "patch", "delete"})
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_POD: Final = "authentication.kubernetes.io/pod-uid"
_ANSWERED: Final = b'"stage":"ResponseComplete"'
# Events may come from any replica, and control nothing.
_NO_CHILDREN: Final = frozenset({"leases", "events"})


@frozen
class Write:
    """A completed write; `credential` identifies one process of a replica: the UID of its pod, else its token."""

    received: datetime
    answered: datetime
    credential: str
    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int

    @classmethod
    def parse(cls, line: dict[str, Any]) -> Self:
        target = line.get("objectRef", {})
        extra = line["user"].get("extra", {})
        parts = [target.get("resource", ""), target.get("subresource", "")]
        return cls(
            datetime.fromisoformat(line["requestReceivedTimestamp"]),
            datetime.fromisoformat(line["stageTimestamp"]),
            extra.get(_POD, extra.get(_CREDENTIAL, [""]))[0],
            line["user"].get("username", "").rpartition(":")[2],
            line["verb"],
            "/".join(part for part in parts if part),
            target.get("namespace", ""),
            target.get("name", ""),
            line.get("responseStatus", {}).get("code", 0),
        )

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.code < 300

    @property
    def target(self) -> tuple[str, str, str]:
        return self.resource, self.namespace, self.name


@frozen
class AuditTrail:
    """Reads the audit log of the API server."""

    path: Path

    def writes(self) -> list[Write]:
        """All writes in the order of their responses, without dry runs."""
        done = (line for line in self._answers() if "dryRun=" not in line.get("requestURI", ""))
        found = (Write.parse(line) for line in done if line["verb"] in _WRITES)
        return sorted(found, key=lambda write: write.answered)

    def _answers(self) -> Iterator[dict[str, Any]]:
        with self.path.open("rb") as log:
            for line in log:
                # The last line may be incomplete.
                if line.endswith(b"\n") and _ANSWERED in line:
                    yield json.loads(line)


def lease_writes(writes: Sequence[Write], lease: str) -> list[Write]:
    """The accepted writes to a lease: the author of the last one leads."""
    return [write for write in writes if write.is_accepted and write.target[::2] == ("leases", lease)]


def writes_without_lease(writes: Sequence[Write], account: str, lease: str) -> list[Write]:
    """The accepted writes of an account by a process that did not hold the lease."""
    terms = lease_writes(writes, lease)
    wrong: list[Write] = []
    index = 0
    for write in sorted(writes, key=lambda one: one.received):
        if write.user != account or not write.is_accepted or write.resource in _NO_CHILDREN:
            continue
        while index < len(terms) and terms[index].answered <= write.received:
            index += 1
        changed = (term.credential for term in terms[index:] if term.answered <= write.answered)
        if write.credential not in {terms[index - 1].credential if index else "no holder", *changed}:
            wrong.append(write)
    return wrong


def duplicate_creations(writes: Sequence[Write], account: str) -> list[tuple[str, str, str]]:
    """The objects that an account created twice, or tried to create although they existed."""
    existing: Counter[tuple[str, str, str]] = Counter()
    wrong: list[tuple[str, str, str]] = []
    for write in writes:
        if write.verb == "delete" and write.is_accepted:
            existing[write.target] = 0
        elif write.verb == "create" and write.user == account and write.resource not in _NO_CHILDREN:
            existing[write.target] += write.is_accepted
            if write.code == 409 or existing[write.target] > 1:
                wrong.append(write.target)
    return wrong
