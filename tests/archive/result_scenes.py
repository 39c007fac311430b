"""Results as RESULTS has them, for the tests of this room."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gpuruntime.api.invocations import InvocationKey, ResultRecord, metadata_headers, result_subject
from gpuruntime.archive.results import StoredResult, result_of_message

__all__ = ["NOON", "TTL", "archived", "key_of"]

NOON: Final = datetime(2026, 1, 2, 12, tzinfo=UTC)
TTL: Final = timedelta(hours=1)


def key_of(invocation: str, function: str = "echo", namespace: str = "ns") -> InvocationKey:
    return InvocationKey(namespace, function, invocation)


def archived(
    key: InvocationKey | str, *, after: float = 0.0, body: bytes = b"", state: str = "succeeded", **record: Any
) -> StoredResult:
    """A result that NATS stored some seconds after noon."""
    chosen = key_of(key) if isinstance(key, str) else key
    headers = metadata_headers(ResultRecord(state, **{"result_ttl_millis": int(TTL.total_seconds() * 1000), **record}))
    return result_of_message(result_subject(chosen), headers, body, NOON + timedelta(seconds=after))
