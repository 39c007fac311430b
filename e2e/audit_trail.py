"""The audit log of a cluster as evidence: which life of which replica wrote what, and when."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from attrs import frozen

__all__ = ["AuditTrail", "Write", "made_twice", "out_of_term", "terms_of"]

_WRITES: Final = frozenset({"create", "update", "patch", "delete"})
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_ANSWERED: Final = b'"stage":"ResponseComplete"'
# Events are told by whoever has something to tell, and decide nothing.
_NO_CHILDREN: Final = frozenset({"leases", "events"})


@frozen
class Write:
    """A write as it was answered; `credential` tells one life of a replica from all others."""

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
        parts = [target.get("resource", ""), target.get("subresource", "")]
        return cls(
            datetime.fromisoformat(line["requestReceivedTimestamp"]),
            datetime.fromisoformat(line["stageTimestamp"]),
            line["user"].get("extra", {}).get(_CREDENTIAL, [""])[0],
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
    """Reads the log of the API server from its first line to its last."""

    path: Path

    def writes(self) -> list[Write]:
        """All writes of everybody in the order in which they were answered, but for those that were only rehearsed."""
        done = (line for line in self._answers() if "dryRun=" not in line.get("requestURI", ""))
        found = (Write.parse(line) for line in done if line["verb"] in _WRITES)
        return sorted(found, key=lambda write: write.answered)

    def _answers(self) -> Iterator[dict[str, Any]]:
        with self.path.open("rb") as log:
            for line in log:
                # The last line may be half written.
                if line.endswith(b"\n") and _ANSWERED in line:
                    yield json.loads(line)


def terms_of(writes: Sequence[Write], lease: str) -> list[Write]:
    """The accepted writes to a lease: whoever made the last one leads."""
    return [write for write in writes if write.is_accepted and write.target[::2] == ("leases", lease)]


def out_of_term(writes: Sequence[Write], account: str, lease: str) -> list[Write]:
    """The accepted writes of an account that no holder of the lease made while it held it."""
    terms = terms_of(writes, lease)
    wrong: list[Write] = []
    place = 0
    for write in sorted(writes, key=lambda one: one.received):
        if write.user != account or not write.is_accepted or write.resource in _NO_CHILDREN:
            continue
        while place < len(terms) and terms[place].answered <= write.received:
            place += 1
        changed = (term.credential for term in terms[place:] if term.answered <= write.answered)
        if write.credential not in {terms[place - 1].credential if place else "nobody", *changed}:
            wrong.append(write)
    return wrong


def made_twice(writes: Sequence[Write], account: str) -> list[tuple[str, str, str]]:
    """What an account tried to make that was there, or made again although nobody had deleted it."""
    there: Counter[tuple[str, str, str]] = Counter()
    wrong: list[tuple[str, str, str]] = []
    for write in writes:
        if write.verb == "delete" and write.is_accepted:
            there[write.target] = 0
        elif write.verb == "create" and write.user == account and write.resource not in _NO_CHILDREN:
            there[write.target] += write.is_accepted
            if write.code == 409 or there[write.target] > 1:
                wrong.append(write.target)
    return wrong
