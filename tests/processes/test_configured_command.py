"""The commands of processes with a config, before anything runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuruntime.processes.command import main

COMMANDS = ["controller-manager", "runtime-api"]


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("GPURUNTIME_")] + ["KUBECONFIG"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_the_keys_and_the_variables(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])

    told = capsys.readouterr().out
    for words in ("--config FILE", "--kubeconfig FILE", "--print-config", "namespaces.stock", "(30s)", "GPURUNTIME_"):
        assert words in told


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_config_comes_to_is_printed_and_can_be_read_again(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("shutdownGrace: 1m\nkubeconfig: a\nlogging: {level: debug}\n")
    prefix = f"GPURUNTIME_{command.upper().replace('-', '_')}_"
    monkeypatch.setenv(f"{prefix}LOGGING_LEVEL", "error")
    monkeypatch.setenv(f"{prefix}KUBECONFIG", "b")

    assert main([command, "--config", str(file), "--kubeconfig", "c", "--print-config"]) == 0
    first = capsys.readouterr().out
    monkeypatch.delenv(f"{prefix}LOGGING_LEVEL")
    monkeypatch.delenv(f"{prefix}KUBECONFIG")
    file.write_text(first)
    assert main([command, "--config", str(file), "--print-config"]) == 0

    assert f"  level: error  # from {prefix}LOGGING_LEVEL\n" in first
    assert "kubeconfig: c\n" in first
    assert "shutdownGrace: 1m\n" in first
    assert capsys.readouterr().out == first.replace(f"  # from {prefix}LOGGING_LEVEL", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_problem_of_a_config_is_a_line_and_the_exit_code_is_1(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("shutdownGrace: never\nloging: {}\n")
    prefix = f"GPURUNTIME_{command.upper().replace('-', '_')}_"
    monkeypatch.setenv(f"{prefix}KUBECONFG", "b")

    assert main([command, "--config", str(file)]) == 1

    assert capsys.readouterr().err.splitlines() == [
        f"error: {file}:1: shutdownGrace: expected a duration of at least 1s such as 30s or 5m, got 'never'",
        f"error: {file}:2: loging: unknown key: did you mean logging?",
        f"error: {prefix}KUBECONFG: unknown variable: did you mean {prefix}KUBECONFIG?",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kubeMode: required", "no credentials: KUBECONFIG is not set, "),
        ("{kubeMode: off, httpAddr: ':0'}", "address 0.0.0.0:0 can be reached by other machines"),
    ],
)
def test_an_api_that_cannot_be_served_so_is_one_line_and_exit_code_1(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)

    done = _run("runtime-api", "--config", str(file))

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {words}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("command", "foreign"), [("controller-manager", "web"), ("runtime-api", "reconcilers")])
def test_a_process_loads_nothing_of_the_other(command: str, foreign: str) -> None:
    loaded = f"[name for name in sys.modules if name.startswith('gpuruntime.{foreign}')]"
    script = f"import sys\nfrom gpuruntime.processes.command import main\nmain(['{command}', '--print-config'])\n"

    done = subprocess.run(
        [sys.executable, "-c", f"{script}print({loaded})"], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuruntime.processes.command", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
