"""Telling a write from its rehearsal."""

import orjson

from gpuruntime.kube.transport import Params

__all__ = ["is_dry_run"]


def is_dry_run(method: str, params: Params, body: bytes | None) -> bool:
    """Whether the server is asked to rehearse a write only."""
    if method != "DELETE" or not body:
        return bool(dict(params).get("dryRun"))
    # Once a deletion has a body, the server ignores the options in the query.
    try:
        options = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(options, dict) and bool(options.get("dryRun"))
