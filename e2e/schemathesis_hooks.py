"""Hooks of schemathesis: no request waits or streams.

Schemathesis loads this file by SCHEMATHESIS_HOOKS. A stream does not end, and a wait for a unit that never becomes
ready takes its whole timeout; both have their own tests.
"""

from typing import Any

import schemathesis

__all__ = ["before_call"]

_TRUE = {"true", "1", "True"}


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """Remove `wait` and `watch` from a generated request."""
    query = case.query or {}
    if str(query.get("watch")) in _TRUE:
        del query["watch"]
    takes = {parameter.name for parameter in case.operation.query}
    if "timeout" in takes and str(query.get("timeout", 60)).isdecimal() and int(query.get("timeout", 60)) <= 600:
        query["timeout"] = 0
    case.query = query
