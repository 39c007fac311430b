"""The variables of a sidecar: what is taken, and the sentence for each that is wrong."""

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from gpuruntime.dispatch.sidecar.settings import VARIABLES, SettingsError, SidecarSettings, read_settings
from gpuruntime.processes.command import main

LEAST = {
    "SERVERLESS_ACTIVATOR_URL": "ws://127.0.0.1:8094",
    "SERVERLESS_TOKEN_FILE": "/var/token",
    "SERVERLESS_FUNCTION": "echo",
    "SERVERLESS_NAMESPACE": "team",
    "SERVERLESS_WORKER": "echo-1",
}
FEWEST = SidecarSettings(
    activator_url="ws://127.0.0.1:8094/v1/worker",
    token_file=Path("/var/token"),
    function="echo",
    request_id="echo",
    namespace="team",
    worker="echo-1",
)


def test_five_variables_are_enough_and_empty_ones_count_as_absent() -> None:
    empty = dict.fromkeys(VARIABLES.keys() - LEAST.keys(), "")

    assert read_settings(LEAST) == FEWEST
    assert read_settings(LEAST | empty) == FEWEST


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("ACTIVATOR_URL", "wss://a.b:1/", {"activator_url": "wss://a.b:1/v1/worker"}),
        ("ACTIVATOR_URL", "wss://a.b/prefix", {"activator_url": "wss://a.b/prefix/v1/worker"}),
        ("ACTIVATOR_URL", "ws://[::1]:80/v1/worker", {"activator_url": "ws://[::1]:80/v1/worker"}),
        ("REQUEST_ID", "my_echo", {"request_id": "my_echo"}),
        ("REVISION", "abc", {"revision": "abc"}),
        ("CONCURRENCY", "8", {"slots": 8}),
        ("FRAMEWORK_CONTRACT", "raw", {"contract": "raw"}),
        ("FRAMEWORK_SOCKET", "/run/f.sock", {"socket": Path("/run/f.sock")}),
        ("FRAMEWORK_INVOKE_PATH", "/v1/completions", {"invoke_path": "/v1/completions"}),
        ("FRAMEWORK_HEALTH_PATH", "/health", {"health_path": "/health"}),
        ("HEALTH_PORT", "9000", {"health_port": 9000}),
        ("DRAIN_SECONDS", "2.5", {"drain_seconds": 2.5}),
    ],
)
def test_each_variable_has_its_place(name: str, value: str, expected: dict[str, Any]) -> None:
    assert read_settings(LEAST | {f"SERVERLESS_{name}": value}) == evolve(FEWEST, **expected)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("ACTIVATOR_URL", "", "expected ws:// or wss:// URL of the activator, got none"),
        ("ACTIVATOR_URL", "https://a", "expected a URL such as wss://"),
        ("ACTIVATOR_URL", "wss://", "expected a URL such as wss://"),
        ("ACTIVATOR_URL", "wss://a:99999", "expected a URL such as wss://"),
        ("ACTIVATOR_URL", "wss://user@a", "expected a URL such as wss://"),
        ("ACTIVATOR_URL", "wss://a/?b=c", "expected a URL such as wss://"),
        ("ACTIVATOR_URL", "a b", "expected a URL such as wss://"),
        ("ACTIVATOR_CA", "no certificate", "expected certificates in PEM, got 14 characters"),
        ("TOKEN_FILE", "", "expected file with the token of the pod"),
        ("FUNCTION", "", "expected name of the function, got none"),
        ("NAMESPACE", "", "expected namespace"),
        ("WORKER", "", "expected name of the worker's unit, got none"),
        ("CONCURRENCY", "0", "expected a number from 1 to 1024, got '0'"),
        ("CONCURRENCY", "1025", "expected a number from 1 to 1024, got '1025'"),
        ("CONCURRENCY", "-1", "expected a number from 1 to 1024, got '-1'"),
        ("CONCURRENCY", "two", "expected a number from 1 to 1024, got 'two'"),
        ("FRAMEWORK_CONTRACT", "grpc", "expected envelope or raw, got 'grpc'"),
        ("FRAMEWORK_SOCKET", "f.sock", "expected an absolute path of at most 107 bytes, got 'f.sock'"),
        ("FRAMEWORK_SOCKET", "/" + "x" * 107, "expected an absolute path of at most 107 bytes"),
        ("FRAMEWORK_INVOKE_PATH", "invoke", "expected a path that begins with '/'"),
        ("FRAMEWORK_HEALTH_PATH", "/a b", "expected a path that begins with '/'"),
        ("HEALTH_PORT", "65536", "expected a number from 0 to 65535, got '65536'"),
        ("DRAIN_SECONDS", "-1", "expected seconds from 0 to 604800, got '-1'"),
        ("DRAIN_SECONDS", "nan", "expected seconds from 0 to 604800, got 'nan'"),
        ("DRAIN_SECONDS", "soon", "expected seconds from 0 to 604800, got 'soon'"),
    ],
)
def test_a_wrong_variable_is_one_sentence_that_names_it(name: str, value: str, problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_settings(LEAST | {f"SERVERLESS_{name}": value})

    [sentence] = raised.value.problems
    assert sentence.startswith(f"SERVERLESS_{name}: {problem}")


def test_the_command_names_all_wrong_variables_and_exits_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SERVERLESS_CONCURRENCY", "none")

    code = main(["sidecar"])

    lines = capsys.readouterr().err.splitlines()
    assert code == 2
    assert [line.partition(": ")[2].partition(":")[0] for line in lines] == [
        "SERVERLESS_FUNCTION",
        "SERVERLESS_ACTIVATOR_URL",
        "SERVERLESS_TOKEN_FILE",
        "SERVERLESS_NAMESPACE",
        "SERVERLESS_WORKER",
        "SERVERLESS_CONCURRENCY",
    ]
    assert all(line.startswith("error: ") for line in lines)


def test_help_teaches_every_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sidecar", "--help"])

    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert [name for name in VARIABLES if f"  {name} " not in shown] == []
