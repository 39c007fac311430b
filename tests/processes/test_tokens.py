import asyncio
import stat
from pathlib import Path

import pytest

from gpuruntime.endpoints.auth.token_file import TokenFile
from gpuruntime.endpoints.server.route import Caller, Scope
from gpuruntime.processes.command import main


def test_a_new_token_is_printed_and_only_its_hash_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens"

    codes = [main(["token", name, "write", "--file", str(file)]) for name in ("billing", "ops")]

    tokens = capsys.readouterr().out.split()
    known = TokenFile(file)
    assert codes == [0, 0]
    assert [asyncio.run(known.authenticate(token)) for token in tokens] == [
        Caller("billing", Scope.WRITE),
        Caller("ops", Scope.WRITE),
    ]
    assert tokens[0] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_last_line_without_an_end_is_not_spoilt(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# ours")

    main(["token", "billing", "read", "--file", str(file)])

    assert file.read_text().splitlines()[0] == "# ours"
    assert file.read_text().splitlines()[1].startswith("billing:read:")


@pytest.mark.parametrize(("arguments", "named"), [(("a b", "read"), "name 'a b': "), (("a", "all"), "scope 'all': ")])
def test_an_invalid_name_or_scope_is_one_line_and_exit_code_1(
    arguments: tuple[str, str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["token", *arguments, "--file", str(tmp_path / "tokens")])

    printed = capsys.readouterr()
    assert (code, printed.out, printed.err.count("\n")) == (1, "", 1)
    assert printed.err.startswith(f"error: {named}")
