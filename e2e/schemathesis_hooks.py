"""What schemathesis does differently here: nothing that it sends makes the API wait or stream on purpose.

It loads this file by SCHEMATHESIS_HOOKS. A stream has no end that one could wait for, and a wait for what never becomes
ready takes as long as it says; both have tests of their own.
"""

from typing import Any

import schemathesis

__all__ = ["before_call"]

_TRUE = {"true", "1", "True"}


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    """Send what was made up, with no time to wait and without the wish to follow."""
    query = case.query or {}
    if str(query.get("watch")) in _TRUE:
        del query["watch"]
    takes = {parameter.name for parameter in case.operation.query}
    if "timeout" in takes and str(query.get("timeout", 60)).isdecimal() and int(query.get("timeout", 60)) <= 600:
        query["timeout"] = 0
    case.query = query
