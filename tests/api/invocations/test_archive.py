"""What the result store answers."""

import pytest

from gpuruntime.api.invocations import (
    ArchivedInvocation,
    ArchiveQuery,
    InvocationKey,
    ResultRecord,
    archive_body_path,
    archive_path,
)
from gpuruntime.meta import decode, encode
from gpuruntime.schema import violations

KEY = InvocationKey("runtime-instance", "echo", "a.b:c_d-1")


def test_an_archived_invocation_is_read_as_it_was_written() -> None:
    one = ArchivedInvocation(
        *("runtime-instance", "echo", "a.b:c_d-1"),
        ResultRecord("succeeded", status_code=200),
        "2026-01-02T03:04:05.000006Z",
        "2026-01-02T04:04:05.000006Z",
        body_bytes=7,
        is_expired=True,
    )

    assert decode(ArchivedInvocation, encode(one)) == one
    assert one.key == KEY


def test_paths_name_the_invocation() -> None:
    assert archive_path(KEY) == "/v1/invocations/runtime-instance/echo/a.b:c_d-1"
    assert archive_body_path(KEY) == "/v1/invocations/runtime-instance/echo/a.b:c_d-1/body"


@pytest.mark.parametrize(
    ("field", "value"),
    [("state", "running"), ("state", ""), ("limit", 0), ("limit", 501), ("since", "yesterday"), ("function", "")],
)
def test_a_query_that_can_match_nothing_is_invalid(field: str, value: object) -> None:
    (found,) = violations({field: value}, ArchiveQuery)

    assert found.path == field
