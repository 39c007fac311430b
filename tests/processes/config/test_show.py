from pathlib import Path

import pytest
import yaml
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.serving.http_site import HttpAddress
from gpuruntime.processes.config.api_sections import Auth, KubeMode, Tls
from gpuruntime.processes.config.load import Effective, load_config
from gpuruntime.processes.config.show import show_config
from gpuruntime.processes.controller_manager import ControllerManagerConfig
from gpuruntime.processes.manager import ManagerConfig
from gpuruntime.processes.runtime_api import RuntimeApiConfig

NAMES = st.from_regex(r"[!-~]([ -~]{0,30}[!-~])?", fullmatch=True)


@pytest.mark.parametrize("kind", [ManagerConfig, ControllerManagerConfig, RuntimeApiConfig])
def test_printed_defaults_are_a_config_file_of_the_defaults(kind: type, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(show_config(Effective(kind(), {})))

    assert load_config(kind, file, {}, "NONE_").config == kind()


@given(
    files=st.lists(NAMES, min_size=3, max_size=3),
    users=st.lists(NAMES, max_size=3, unique=True),
    mode=st.sampled_from([KubeMode.AUTO, KubeMode.REQUIRED]),
    milliseconds=st.integers(min_value=5000, max_value=10**7),
    port=st.integers(min_value=0, max_value=65535),
)
def test_a_printed_config_is_loaded_as_an_equal_config(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[str],
    users: list[str],
    mode: KubeMode,
    milliseconds: int,
    port: int,
) -> None:
    config = RuntimeApiConfig(
        kubeconfig=Path(files[0]),
        kube_mode=mode,
        http_addr=HttpAddress("::1", port),
        report_interval=milliseconds / 1000,
        tls=Tls(Path(files[1]), Path(files[2])),
        auth=Auth(token_review=True, grants=tuple(f"user:{user}=read" for user in users)),
    )
    file = tmp_path_factory.mktemp("config") / "config.yaml"
    file.write_text(show_config(Effective(config, {})))

    assert load_config(RuntimeApiConfig, file, {}, "NONE_").config == config


def test_a_comment_names_the_source_of_a_value() -> None:
    config = evolve(ControllerManagerConfig(), workers=3)

    text = show_config(Effective(config, {"workers": "X_WORKERS", "namespaces.stock": "X_NAMESPACES_STOCK"}))

    assert "\nworkers: 3  # from X_WORKERS\n" in text
    assert "\n  stock:  # from X_NAMESPACES_STOCK\n  - runtime-stock\n" in text
    assert text.count("#") == 2
    assert yaml.safe_load(text)["workers"] == 3
