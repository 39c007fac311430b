"""The checked-in OpenAPI document."""

from hack.generators import openapi
from hack.generators.openapi_changes import breaking_changes


def test_the_document_is_current_and_has_no_unacknowledged_break() -> None:
    new = openapi.described()

    assert openapi.unacknowledged_breaks(new) == (), "revert it, or add it to docs/openapi-breaks.txt and CHANGELOG.md"
    assert openapi.update(check=True) == 0, "run ./hack/generate"


def test_a_removed_route_is_a_break() -> None:
    less = openapi.described()
    path, _ = less["paths"].popitem()

    breaks = openapi.unacknowledged_breaks(less)

    assert any(path in sentence and sentence.endswith("is gone") for sentence in breaks)
    assert set(breaks) == set(breaking_changes(openapi.described(), less))
