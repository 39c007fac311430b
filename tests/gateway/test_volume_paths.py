from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.gateway.volume_paths import VolumePath, VolumePathError, parse_path

NAMES = st.binary(min_size=1, max_size=40).filter(
    lambda name: name not in {b".", b".."} and b"/" not in name and b"\0" not in name
)


@given(st.lists(NAMES, max_size=6), st.booleans())
def test_every_name_of_a_file_survives_the_url(names: list[bytes], slash: bool) -> None:
    path = VolumePath(tuple(names), ends_with_slash=slash or not names)

    assert parse_path(path.url_path) == path


@given(st.text(alphabet="%./\\ae2f0cCF5", max_size=24))
def test_no_text_is_a_path_with_a_name_that_leads_up(raw: str) -> None:
    try:
        path = parse_path(raw)
    except VolumePathError:
        return

    assert not {b"", b".", b".."} & {*path.names}
    assert not any(b"/" in name or b"\0" in name for name in path.names)


@pytest.mark.parametrize(
    "raw",
    [
        *("..", "../a", "a/../b", "a/..", "./a", "a/./b", "a//b", "//a", "/a", "/etc/passwd"),
        *("%2e%2e", "%2E%2e/a", ".%2e/a", "a/%2e", "a%2fb", "%2f", "..%2f..%2fetc", "a%00b", "%00"),
        *("%", "a%2", "a%zz", "a b", "a\tb", "\u00e9", "a/" * 3000, "a" * 256),
    ],
)
def test_a_path_that_could_lead_out_is_refused(raw: str) -> None:
    with pytest.raises(VolumePathError, match="expected"):
        parse_path(raw)


def test_a_name_is_decoded_once() -> None:
    assert parse_path("%252e%252e/a").names == (b"%2e%2e", b"a")
    assert parse_path("a%5Cb").names == (b"a\\b",)
    assert parse_path(quote_from_bytes(b"\xff")).names == (b"\xff",)
