"""A result as it is archived: the message of RESULTS, with the times that NATS gave it."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from attrs import field, frozen

from gpuruntime.api.invocations import (
    INVOCATION_ID,
    ArchivedInvocation,
    InvocationKey,
    MessageError,
    ResultRecord,
    key_of_subject,
    read_result,
)
from gpuruntime.meta import format_micros, is_dns_label

__all__ = ["DEFAULT_RESULT_TTL", "ResultRow", "StoredResult", "result_of_message"]

DEFAULT_RESULT_TTL: Final = timedelta(hours=1)
"""How long the body of a result is kept that does not say it."""
_ID: Final = re.compile(INVOCATION_ID.regex)
_LONGEST_TTL: Final = timedelta(days=3650)


@frozen
class StoredResult:
    """A result with its body. `ended` is when NATS stored it, and `expires` when the body is deleted."""

    key: InvocationKey
    record: ResultRecord
    ended: datetime
    expires: datetime
    body: bytes = field(default=b"", repr=False)


@frozen
class ResultRow:
    """A result without its body. `number` distinguishes results that ended at the same time."""

    key: InvocationKey
    record: ResultRecord
    ended: datetime
    expires: datetime
    body_bytes: int
    number: int

    def view(self, now: datetime) -> ArchivedInvocation:
        """What callers see at this time."""
        return ArchivedInvocation(
            self.key.namespace,
            self.key.function,
            self.key.id,
            self.record,
            format_micros(self.ended),
            format_micros(self.expires),
            self.body_bytes,
            is_expired=self.expires <= now,
        )


def result_of_message(subject: str, headers: Mapping[str, str], body: bytes, time: datetime) -> StoredResult:
    """The result of a message that NATS stored at a time.

    Times of other clocks do not count: a process whose clock is wrong neither shortens nor lengthens a life.

    Raises:
        MessageError: another program wrote it.
    """
    try:
        key = key_of_subject(subject)
    except ValueError as error:
        raise MessageError(str(error)) from error
    if not (is_dns_label(key.namespace) and is_dns_label(key.function) and _ID.fullmatch(key.id)):
        raise MessageError(f"expected a subject such as res.NAMESPACE.FUNCTION.ID, got {subject!r}")
    record = read_result(headers)
    ttl = timedelta(milliseconds=record.result_ttl_millis) or DEFAULT_RESULT_TTL
    return StoredResult(key, record, time, time + min(ttl, _LONGEST_TTL), body)
