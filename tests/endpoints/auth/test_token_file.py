import logging
from hashlib import sha256
from pathlib import Path

import pytest

from gpuruntime.endpoints.auth.token_file import TokenFile, TokenFileError, new_token
from gpuruntime.endpoints.server.route import Caller, Scope


def line(name: str, scope: str, token: str) -> str:
    return f"{name}:{scope}:{sha256(token.encode()).hexdigest()}\n"


async def test_a_token_is_authenticated_by_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(
        "# callers\n\n" + line("billing", "read", "one") + line("system:serviceaccount:a:b", "write", "two")
    )

    tokens = TokenFile(path)

    assert await tokens.authenticate("one") == Caller("billing", Scope.READ)
    assert await tokens.authenticate("two") == Caller("system:serviceaccount:a:b", Scope.WRITE)
    assert await tokens.authenticate("three") is None
    assert await tokens.authenticate("") is None


async def test_a_new_token_is_valid_once_its_line_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("")
    tokens = TokenFile(path)
    made = new_token("billing", Scope.OPERATOR)

    path.write_text(made.line)

    assert await tokens.authenticate(made.token) == Caller("billing", Scope.OPERATOR)
    assert made.token not in made.line
    assert made.token not in repr(made)


async def test_a_removed_token_is_invalid_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(line("a", "read", "one") + line("b", "read", "two"))
    tokens = TokenFile(path)

    path.write_text(line("b", "read", "two"))

    assert await tokens.authenticate("one") is None
    assert await tokens.authenticate("two") == Caller("b", Scope.READ)


async def test_an_invalid_change_of_the_file_keeps_the_last_valid_tokens(
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
    ("text", "named"),
    [
        ("billing:read:token-in-clear", "line 1: .*name:scope:sha256"),
        (line("billing", "root", "one"), "line 1: scope 'root': .*read, write, operator"),
        ("\n" + line("", "read", "one"), "line 2: .*name"),
        (line("a", "read", "one") + line("b", "write", "one"), "hash"),
    ],
)
def test_an_invalid_file_is_an_error_that_quotes_no_token(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)

    with pytest.raises(TokenFileError, match=named) as caught:
        TokenFile(path)

    assert "token-in-clear" not in str(caught.value)


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="tokens"):
        TokenFile(tmp_path / "tokens")


@pytest.mark.parametrize("name", ["", "two words", "#comment", "x" * 201, "new\nline"])
def test_a_name_that_is_not_allowed_in_the_file_is_rejected(name: str) -> None:
    with pytest.raises(TokenFileError, match="1 to 200"):
        new_token(name, Scope.READ)
