"""The body of a DELETE says what was asked for and nothing more."""

import json

import pytest

from gpuruntime.kube.delete_options import DeleteOptions

EMPTY = {"apiVersion": "v1", "kind": "DeleteOptions"}


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (DeleteOptions(), {}),
        (DeleteOptions(uid="u"), {"preconditions": {"uid": "u"}}),
        (
            DeleteOptions("u", "7", "Foreground", 0, dry_run=True),
            {
                "preconditions": {"uid": "u", "resourceVersion": "7"},
                "propagationPolicy": "Foreground",
                "gracePeriodSeconds": 0,
                "dryRun": ["All"],
            },
        ),
    ],
)
def test_options_are_written_where_they_are_set(options: DeleteOptions, body: dict[str, object]) -> None:
    assert json.loads(options.encode()) == EMPTY | body
