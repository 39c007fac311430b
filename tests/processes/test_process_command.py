"""The commands of processes: flags, environment and file, before anything runs."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control.serving.http_site import HttpAddress
from gpuruntime.processes import controller_manager, manager, runtime_api
from gpuruntime.processes.command import main
from gpuruntime.processes.config.api_sections import Auth, Connections, KubeMode, Tls
from gpuruntime.processes.config.keys import layout
from gpuruntime.processes.config.load import load_config
from gpuruntime.processes.manager import ManagerConfig
from gpuruntime.processes.process_command import ProcessCommand

COMMANDS: dict[str, ProcessCommand[Any]] = {
    "manager": manager.COMMAND,
    "controller-manager": controller_manager.COMMAND,
    "runtime-api": runtime_api.COMMAND,
}


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("GPURUNTIME_")] + ["KUBECONFIG"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def prefix_of(command: str) -> str:
    return f"GPURUNTIME_{command.upper().replace('-', '_')}_"


def config_of(*flags: str) -> ManagerConfig:
    """The config of a manager with these flags."""
    command, parser = manager.COMMAND, argparse.ArgumentParser()
    command.add(parser)
    given = vars(parser.parse_args(flags))
    texts = {path: found for path, found in given.items() if isinstance(found, list)}
    return load_config(ManagerConfig, None, {}, "NONE_", texts).config


def problems(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """The lines that a command prints as errors; its exit code is 1."""
    assert main([*words]) == 1
    return [line.removeprefix("error: ") for line in capsys.readouterr().err.splitlines()]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_documents_flags_keys_and_variables(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])

    text = " ".join(capsys.readouterr().out.split())
    for words in (
        *("--config FILE", "--kubeconfig FILE", "--print-config", "--stock-namespace NAME", "[namespaces.stock]"),
        *("(default: 30s)", prefix_of(command)),
    ):
        assert words in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_key_has_a_flag_of_its_own(command: str) -> None:
    keys = list(layout(COMMANDS[command].config).every_key())

    flags = {key.flag for key in keys}

    assert len(flags) == len(keys)
    assert not flags & {"--config", "--print-config", "--help"}


def test_a_key_of_several_processes_has_the_same_flag_in_each() -> None:
    flags: dict[str, set[str]] = {}

    for command in COMMANDS.values():
        for key in layout(command.config).every_key():
            flags.setdefault(key.path, set()).add(key.flag)

    assert {path: found for path, found in flags.items() if len(found) > 1} == {}


def test_without_flags_the_manager_is_the_development_server_of_this_machine() -> None:
    config = config_of()

    assert (config, config.http_addr, config.kube_mode) == (
        ManagerConfig(),
        HttpAddress("127.0.0.1", 8080),
        KubeMode.AUTO,
    )


def test_flags_reach_the_config() -> None:
    config = config_of(
        *("--http-addr", ":9", "--kube-mode", "required", "--kubeconfig", "k", "--report-interval", "1m"),
        *("--keep-operations", "2h", "--instance-namespace", "a", "--instance-namespace", "b"),
        *("--stock-namespace", "s", "--system-namespace", "c", "--token-file", "t", "--token-review"),
        *("--grant", "user:alice=read", "--grant", "group:ops=operator", "--tls-cert", "crt", "--tls-key", "key"),
        *("--allow-unauthenticated", "--max-connections", "9", "--max-connections-per-address", "5"),
        *("--leader-elect=false", "--workers", "3", "--workers", "4"),
    )

    assert (config.http_addr, config.kube_mode, config.kubeconfig) == (
        HttpAddress("0.0.0.0", 9),
        KubeMode.REQUIRED,
        Path("k"),
    )
    assert (config.namespaces, config.keep_operations) == (Namespaces(("a", "b"), ("s",), "c"), 7200.0)
    assert config.auth == Auth(
        Path("t"), token_review=True, grants=("user:alice=read", "group:ops=operator"), allow_unauthenticated=True
    )
    assert (config.tls, config.connections) == (Tls(Path("crt"), Path("key")), Connections(9, 5))
    assert (config.report_interval, config.leader_election.enabled, config.workers) == (60.0, False, 4)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--report-interval", "0"), "--report-interval: .*5s .*'0'"),
        (("--report-interval", "4.9s"), "--report-interval: .*5s .*'4.9s'"),
        (("--keep-operations", "59s"), "--keep-operations: .*1m .*'59s'"),
        (("--kube-mode", "maybe"), "--kube-mode: .*auto, off, required, .*'maybe'"),
        (("--stock-namespace", "A"), "--stock-namespace: .*'A'"),
        (("--token-review=yes",), "--token-review: .*'yes'"),
        (("--stock-namespace", "x", "--instance-namespace", "x"), "--stock-namespace: .* x .*namespaces.instance"),
        (("--tls-cert", "crt"), "--tls-cert: .*tls.keyFile"),
        (("--grant", "user:alice=read"), "--grant: .*auth.tokenReview: true"),
        (
            ("--token-review", "--grant", "alice"),
            "--grant: .*user:NAME=SCOPE .*write, operator, access.*, .*'alice'",
        ),
        (("--kube-mode", "off", "--token-review"), "--token-review: .*kubeMode: off"),
        (("--kube-mode", "off", "--kubeconfig", "k"), "--kubeconfig: .*kubeMode: off"),
    ],
)
def test_an_invalid_flag_is_one_line_that_names_it(
    flags: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    [problem] = problems(capsys, "manager", *flags)

    assert re.match(named, problem)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_effective_config_is_printed_with_its_sources_and_is_a_config_file(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, prefix = tmp_path / "config.yaml", prefix_of(command)
    file.write_text("shutdownGrace: 1m\nkubeconfig: a\nlogging: {level: debug}\n")
    monkeypatch.setenv(f"{prefix}LOGGING_LEVEL", "error")
    monkeypatch.setenv(f"{prefix}KUBECONFIG", "b")

    assert main([command, "--config", str(file), "--kubeconfig", "c", "--print-config"]) == 0
    first = capsys.readouterr().out
    monkeypatch.delenv(f"{prefix}LOGGING_LEVEL")
    monkeypatch.delenv(f"{prefix}KUBECONFIG")
    file.write_text(first)
    assert main([command, "--config", str(file), "--print-config"]) == 0

    second = capsys.readouterr().out
    assert f"  level: error  # from {prefix}LOGGING_LEVEL\n" in first
    assert "kubeconfig: c  # from --kubeconfig\n" in first
    assert "shutdownGrace: 1m\n" in first
    assert "#" not in second
    assert yaml.safe_load(second) == yaml.safe_load(first)


@pytest.mark.parametrize("command", COMMANDS)
def test_all_problems_of_file_environment_and_flags_are_reported_at_once(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, prefix = tmp_path / "config.yaml", prefix_of(command)
    file.write_text("shutdownGrace: never\nloging: {}\n")
    monkeypatch.setenv(f"{prefix}KUBECONFG", "b")

    found = problems(capsys, command, "--config", str(file), "--log-level", "loud")

    grace, logging, kubeconfig, level = found
    assert re.match(f"{file}:1: shutdownGrace: .*'never'", grace)
    assert re.match(f"{file}:2: loging: .* logging", logging)
    assert re.match(f"{prefix}KUBECONFG: .*{prefix}KUBECONFIG", kubeconfig)
    assert re.match("--log-level: .*debug, info, warning, error, .*'loud'", level)


@pytest.mark.parametrize(
    ("command", "text", "named"),
    [("manager", "kubeMode: required", "KUBECONFIG"), ("runtime-api", "{kubeMode: off, httpAddr: ':0'}", "0.0.0.0:0")],
)
def test_an_api_that_cannot_be_served_is_one_line_and_exit_code_1(
    command: str, text: str, named: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)

    done = _run(command, "--config", str(file))

    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert named in done.stderr
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
