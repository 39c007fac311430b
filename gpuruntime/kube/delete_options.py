"""DeleteOptions: the body of a DELETE."""

from typing import Any, Literal

import orjson
from attrs import frozen

__all__ = ["DeleteOptions", "Propagation"]

Propagation = Literal["Background", "Foreground", "Orphan"]


@frozen
class DeleteOptions:
    """The options of a DELETE, in its body. If there is a body, the server ignores options in the query.

    `uid` and `resource_version` are preconditions: the deletion fails with ConflictError if the object has another UID
    or version. `propagation` is the policy for dependents; None is the default of the kind.
    """

    uid: str | None = None
    resource_version: str | None = None
    propagation: Propagation | None = None
    grace_seconds: int | None = None
    dry_run: bool = False

    def encode(self) -> bytes:
        preconditions = _present({"uid": self.uid, "resourceVersion": self.resource_version})
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions or None,
            "propagationPolicy": self.propagation,
            "gracePeriodSeconds": self.grace_seconds,
            "dryRun": ["All"] if self.dry_run else None,
        }
        return orjson.dumps(_present(options))


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
