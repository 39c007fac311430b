"""The checked-in description of the API."""

from hack.generators import openapi
from hack.generators.openapi_changes import breaking_changes


def test_the_description_is_current_and_breaks_nobody_unmarked() -> None:
    new = openapi.described()

    assert openapi.unmarked_breaks(new) == (), "mend it, or mark it in docs/openapi-breaks.txt and CHANGELOG.md"
    assert openapi.update(check=True) == 0, "run ./hack/generate"


def test_a_route_that_is_gone_is_a_break() -> None:
    less = openapi.described()
    path, _ = less["paths"].popitem()

    told = openapi.unmarked_breaks(less)

    assert any(path in sentence and sentence.endswith("is gone") for sentence in told)
    assert set(told) == set(breaking_changes(openapi.described(), less))
