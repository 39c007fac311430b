import logging
from hashlib import sha256
from pathlib import Path

import pytest

from gpuruntime.web.auth.token_file import TokenFile, TokenFileError, new_token
from gpuruntime.web.server.route import Caller, Scope


def line(name: str, scope: str, token: str) -> str:
    return f"{name}:{scope}:{sha256(token.encode()).hexdigest()}\n"


async def test_a_token_is_known_by_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(
        "# callers\n\n" + line("billing", "read", "one") + line("system:serviceaccount:a:b", "write", "two")
    )

    tokens = TokenFile(path)

    assert await tokens.authenticate("one") == Caller("billing", Scope.READ)
    assert await tokens.authenticate("two") == Caller("system:serviceaccount:a:b", Scope.WRITE)
    assert await tokens.authenticate("three") is None
    assert await tokens.authenticate("") is None


async def test_a_new_token_is_known_once_its_line_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("")
    tokens = TokenFile(path)
    made = new_token("billing", Scope.OPERATOR)

    path.write_text(made.line)

    assert await tokens.authenticate(made.token) == Caller("billing", Scope.OPERATOR)
    assert made.token not in made.line
    assert made.token not in repr(made)


async def test_a_token_that_is_taken_out_is_unknown_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(line("a", "read", "one") + line("b", "read", "two"))
    tokens = TokenFile(path)

    path.write_text(line("b", "read", "two"))

    assert await tokens.authenticate("one") is None
    assert await tokens.authenticate("two") == Caller("b", Scope.READ)


async def test_a_file_that_went_wrong_leaves_the_tokens_as_they_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    path.write_text(line("a", "read", "one"))
    tokens = TokenFile(path)

    path.write_text("nonsense")
    during = [await tokens.authenticate("one") for _ in range(3)]
    path.unlink()
    after = await tokens.authenticate("one")

    assert {*during, after} == {Caller("a", Scope.READ)}
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("billing:read:token-in-clear", r"line 1: expected name:scope:sha256 \(64 hex digits\)"),
        (line("billing", "root", "one"), "line 1: scope 'root': expected one of read, write, operator"),
        ("\n" + line("", "read", "one"), "line 2: expected name"),
        (line("a", "read", "one") + line("b", "write", "one"), "expected every hash once"),
    ],
)
def test_a_file_that_is_wrong_from_the_start_is_an_error_that_quotes_no_token(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)

    with pytest.raises(TokenFileError, match=message) as caught:
        TokenFile(path)

    assert "token-in-clear" not in str(caught.value)


def test_a_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match=r"tokens cannot be read: no such file"):
        TokenFile(tmp_path / "tokens")


@pytest.mark.parametrize("name", ["", "two words", "#comment", "x" * 201, "new\nline"])
def test_a_name_that_would_spoil_the_file_is_refused(name: str) -> None:
    with pytest.raises(TokenFileError, match="expected 1 to 200 visible"):
        new_token(name, Scope.READ)
