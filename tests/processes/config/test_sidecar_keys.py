"""The keys of sidecars: from a config to what the operator decides about workers."""

from pathlib import Path

import pytest
from attrs import frozen

from gpuruntime.desired.rendering import SidecarRendering
from gpuruntime.processes.config.keys import section
from gpuruntime.processes.config.load import ConfigError, load_config
from gpuruntime.processes.config.sidecar_keys import SidecarKeys
from gpuruntime.processes.controller_manager import ControllerManagerConfig
from gpuruntime.processes.errors import StartError
from gpuruntime.processes.manager import ManagerConfig

URL = "wss://activator.example.org:8443"
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@frozen
class Config:
    serverless: SidecarKeys = section(SidecarKeys)


def load(text: str, tmp_path: Path) -> SidecarKeys:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return load_config(Config, file, {}, "NONE_").config.serverless


def test_without_an_image_and_a_url_there_are_no_workers(tmp_path: Path) -> None:
    assert load("{}", tmp_path).sidecar() is None


def test_sidecars_have_the_authorities_of_the_activator(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.write_text(PEM)

    keys = load(
        f"serverless: {{sidecarImage: 'gpuruntime:1', activatorURL: '{URL}/', activatorCAFile: {authorities}}}",
        tmp_path,
    )

    assert keys.sidecar() == SidecarRendering("gpuruntime:1", URL, PEM)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("{sidecarImage: a}", "serverless.activatorURL"),
        (f"{{activatorURL: '{URL}'}}", "serverless.sidecarImage"),
        ("{sidecarImage: a, activatorURL: 'https://a'}", "expected a URL"),
        ("{sidecarImage: a, activatorURL: 'wss://a/v1/worker'}", "expected a URL"),
        ("{sidecarImage: a, activatorURL: 'wss://u:p@a'}", "expected a URL"),
        ("{sidecarImage: a, activatorURL: 'wss://a:x'}", "expected a URL"),
        ("{sidecarImage: a, activatorURL: 'ws://a', activatorCAFile: c}", "expected wss://"),
    ],
)
def test_keys_that_do_not_fit_are_refused(keys: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        load(f"serverless: {keys}", tmp_path)


@pytest.mark.parametrize("content", [None, "no certificate", PEM + "x" * 70_000])
def test_authorities_that_cannot_be_used_stop_the_process(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)

    with pytest.raises(StartError, match=r"serverless\.activatorCAFile"):
        SidecarKeys("gpuruntime:1", URL, file).sidecar()


def test_both_processes_that_reconcile_have_these_keys(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"serverless: {{sidecarImage: 'gpuruntime:1', activatorURL: '{URL}'}}")

    controller = load_config(ControllerManagerConfig, file, {}, "NONE_").config
    manager = load_config(ManagerConfig, file, {}, "NONE_").config

    assert controller.serverless.sidecar() == SidecarRendering("gpuruntime:1", URL)
    assert manager.serverless.sidecar() == SidecarRendering("gpuruntime:1", URL)
