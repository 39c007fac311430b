"""Lists as SQL: the filters of a query, and the page after a cursor. Pure functions.

A page is found by its position in the index, not by counting: the last page takes no longer than the first.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson
from attrs import frozen

from gpuruntime.api.invocations import ArchiveQuery, InvocationKey, ResultRecord
from gpuruntime.archive.cursors import parse_cursor
from gpuruntime.archive.results import ResultRow
from gpuruntime.meta import TimestampError, decode, parse_timestamp

__all__ = ["COLUMNS", "Statement", "list_statement", "micros", "moment", "row_of"]

COLUMNS: Final = "number, namespace, function, id, ended, expires, body_bytes, record"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# The years whose first and last hours an offset moves out of the calendar: before and after all results.
_BEYOND: Final = {"0000": -(2**62), "0001": -(2**62), "9999": 2**62}


@frozen
class Statement:
    """A statement with its parameters."""

    text: str
    parameters: tuple[Any, ...]


def micros(time: datetime) -> int:
    """A time as the database has it: microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def moment(stored: int) -> datetime:
    """A time of the database."""
    return _EPOCH + stored * _MICROSECOND


def list_statement(query: ArchiveQuery) -> Statement:
    """The statement of a page. It asks for one row more than the page has, which says whether there is another page.

    Raises:
        ArchiveCursorError: the cursor is not one of this query.
    """
    after = parse_cursor(query)
    filters: list[tuple[str, tuple[Any, ...]]] = []
    if query.namespace is not None:
        filters.append(("namespace = ?", (query.namespace,)))
    if query.function is not None:
        filters.append(("function = ?", (query.function,)))
    if query.state is not None:
        filters.append(("state = ?", (query.state,)))
    if query.since is not None:
        filters.append(("ended >= ?", (_bound(query.since),)))
    if after is not None:
        # It is before `until`. With both, SQLite would seek by the one and count up to the other.
        filters.append(("(ended, number) < (?, ?)", (after.ended, after.number)))
    elif query.until is not None:
        filters.append(("ended < ?", (_bound(query.until),)))
    where = f"WHERE {' AND '.join(text for text, _ in filters)} " if filters else ""
    # The texts of the filters are constants: what callers send is in the parameters.
    text = f"SELECT {COLUMNS} FROM results {where}ORDER BY ended DESC, number DESC LIMIT ?"  # noqa: S608 - see above
    return Statement(text, (*(value for _, values in filters for value in values), query.limit + 1))


def _bound(text: str) -> int:
    try:
        return micros(parse_timestamp(text))
    except TimestampError:
        beyond = _BEYOND.get(text[:4])
        if beyond is None:
            raise
        return beyond


def row_of(columns: tuple[Any, ...]) -> ResultRow:
    """The row of a result, from `COLUMNS`."""
    number, namespace, function, invocation, ended, expires, body_bytes, record = columns
    return ResultRow(
        InvocationKey(namespace, function, invocation),
        decode(ResultRecord, orjson.loads(record)),
        moment(ended),
        moment(expires),
        body_bytes,
        number,
    )
