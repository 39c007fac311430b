"""What a request says about itself."""

import orjson
import pytest

from gpuruntime.kube import Request
from gpuruntime.kube.transport.request import Params

DRY_OPTIONS = orjson.dumps({"kind": "DeleteOptions", "dryRun": ["All"]})
REAL_OPTIONS = orjson.dumps({"kind": "DeleteOptions"})


@pytest.mark.parametrize(
    ("method", "params", "body", "is_dry_run"),
    [
        ("PUT", {"dryRun": "All"}, b"{}", True),
        ("PUT", (("fieldManager", "m"), ("dryRun", "All")), b"{}", True),
        ("PUT", {"fieldManager": "m"}, b"{}", False),
        ("DELETE", {"dryRun": "All"}, None, True),
        ("DELETE", {"dryRun": "All"}, REAL_OPTIONS, False),
        ("DELETE", (), DRY_OPTIONS, True),
        ("DELETE", (), b"kind: DeleteOptions", False),
    ],
)
def test_a_dry_run_is_asked_for_in_the_query_or_in_the_body_of_a_delete(
    method: str, params: Params, body: bytes | None, is_dry_run: bool
) -> None:
    assert Request(method, "/x", params, body).is_dry_run is is_dry_run


def test_only_get_and_head_are_reads() -> None:
    methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

    assert [method for method in methods if Request(method, "/x").is_read] == ["GET", "HEAD"]


def test_a_request_shows_its_method_and_path_and_never_its_body() -> None:
    request = Request("PUT", "/api/v1/secrets/x", body=b"hunter2")

    assert str(request) == "PUT /api/v1/secrets/x"
    assert "hunter2" not in repr(request)
