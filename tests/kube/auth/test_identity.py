"""Token files are followed, and nothing that breaks a header gets into one."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.identity import FixedIdentity, Identity, TokenFile, basic, bearer, header_value
from gpuruntime.kube.auth.tls import Pem


class File:
    """A token file that can be rotated."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "token"
        self.write(b"one\n")

    def write(self, content: bytes | None) -> None:
        self.path.unlink(missing_ok=True)
        if content is not None:
            self.path.write_bytes(content)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


async def test_a_replaced_token_is_read_after_the_period_and_not_before(
    file: File, advance: Callable[[float], None]
) -> None:
    source = TokenFile(file.path)
    first = await source.current()
    file.write(b"two")

    advance(9)
    within = await source.current()
    advance(2)
    after = await source.current()

    assert first.authorization == "Bearer one"
    assert within is first
    assert after.authorization == "Bearer two"


async def test_a_refused_token_is_read_again_at_once(file: File) -> None:
    source = TokenFile(file.path)
    first = await source.current()
    file.write(b"two")

    source.invalidate(Identity(authorization="Bearer zero"))
    unconcerned = await source.current()
    source.invalidate(first)
    second = await source.current()

    assert unconcerned is first
    assert second.authorization == "Bearer two"


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe", b"a\nb"])
async def test_an_unusable_file_leaves_the_last_token_in_use(
    file: File, advance: Callable[[float], None], content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    source = TokenFile(file.path)
    first = await source.current()
    file.write(content)

    advance(11)
    during = await source.current()
    file.write(b"two")
    advance(11)
    after = await source.current()

    assert during == first
    assert len(caplog.records) == 1
    assert after.authorization == "Bearer two"


async def test_a_file_that_could_never_be_read_is_an_error_each_time(tmp_path: Path) -> None:
    source = TokenFile(tmp_path / "token")

    for _ in range(2):
        with pytest.raises(CredentialsError, match=r"^token file .*token: .*No such file"):
            await source.current()


async def test_the_fallback_is_used_until_the_file_could_be_read(tmp_path: Path) -> None:
    certificate = Pem("certificate", b"")
    source = TokenFile(tmp_path / "token", Identity(authorization="Bearer spare", certificate=certificate))
    spare = await source.current()
    (tmp_path / "token").write_text("one")

    source.invalidate(spare)
    read = await source.current()

    assert spare.authorization == "Bearer spare"
    assert read == Identity(authorization="Bearer one", certificate=certificate)


async def test_a_fixed_identity_does_not_mind_being_refused() -> None:
    source = FixedIdentity(Identity(authorization="Bearer one"))

    source.invalidate(source.identity)

    assert await source.current() is source.identity


@given(st.text(max_size=20))
def test_a_header_value_is_taken_whole_or_not_at_all(text: str) -> None:
    breaks_a_header = any(character in text for character in map(chr, [*range(32), 127]))

    if breaks_a_header:
        with pytest.raises(CredentialsError, match=r"^here: "):
            header_value(text, "here")
    else:
        assert header_value(text, "here") == text


def test_a_token_with_a_line_break_is_an_error_that_does_not_quote_it() -> None:
    with pytest.raises(CredentialsError) as caught:
        bearer("hush\nhush", "users[0].user.token")

    assert "users[0].user.token" in str(caught.value)
    assert "hush" not in str(caught.value)


@given(st.text(max_size=10).filter(lambda name: ":" not in name), st.text(max_size=10))
def test_basic_authentication_is_utf_8(username: str, password: str) -> None:
    value = basic(username, password)

    assert base64.b64decode(value.removeprefix("Basic ")).decode() == f"{username}:{password}"
