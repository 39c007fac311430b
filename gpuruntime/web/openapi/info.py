"""What the description of the API says of the API as a whole."""

from collections.abc import Iterable
from typing import Any, Final

from gpuruntime.web.server.route import PREFIX

__all__ = ["INFO", "SECURITY_SCHEMES", "described_tags"]

INFO: Final[dict[str, Any]] = {
    "title": "GPU runtime API",
    "version": PREFIX.rpartition("/")[2],
    "description": """\
Runtime units with GPUs, on a Kubernetes cluster.

Answers are `{"data": ...}`, refusals `{"error": {"code", "message", "details"}}`. A write that is sent again with the
same operationID happens once; the header Idempotency-Key of its answers names it, also of a refusal. Unknown fields and
query parameters are refused.
""",
    "contact": {"name": "The maintainers of gpuruntime"},
    "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
}

SECURITY_SCHEMES: Final[dict[str, Any]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the token file or of the cluster. Scopes: read, write, operator; each includes those"
        " before it.",
    }
}

_TAGS: Final = {
    "gpu-units": "Active units: containers with GPUs that run a user's image.",
    "health": "The process and the cluster as they are.",
    "jobs": "The records of write requests, by operationID.",
    "stock-units": "Stock: units that hold GPUs, run nothing and wait to be claimed.",
    "stockpools": "Pools, which keep a number of ready stock units.",
    "stocks": "Stock units in plain words.",
    "vms": "Active units in plain words: machines with a default image.",
}


def described_tags(names: Iterable[str]) -> list[dict[str, str]]:
    """The tags of these names, each once, in the order of names."""
    return [{"name": name, **({"description": _TAGS[name]} if name in _TAGS else {})} for name in sorted(set(names))]
