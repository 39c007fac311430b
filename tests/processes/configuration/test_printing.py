from pathlib import Path

import pytest
import yaml
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.serving.site import HttpAddress
from gpuruntime.processes.cluster_access import KubeMode
from gpuruntime.processes.configuration.controller_manager import ControllerManagerConfig
from gpuruntime.processes.configuration.printing import printed
from gpuruntime.processes.configuration.reading import Effective, read_config
from gpuruntime.processes.configuration.runtime_api import Auth, RuntimeApiConfig, Tls

NAMES = st.from_regex(r"[!-~]([ -~]{0,30}[!-~])?", fullmatch=True)


@pytest.mark.parametrize("kind", [ControllerManagerConfig, RuntimeApiConfig])
def test_defaults_that_were_printed_are_read_as_they_were(kind: type, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(printed(Effective(kind(), {})))

    assert read_config(kind, file, {}, "NONE_").config == kind()


@given(
    files=st.lists(NAMES, min_size=3, max_size=3),
    users=st.lists(NAMES, max_size=3, unique=True),
    mode=st.sampled_from([KubeMode.AUTO, KubeMode.REQUIRED]),
    milliseconds=st.integers(min_value=5000, max_value=10**7),
    port=st.integers(min_value=0, max_value=65535),
)
def test_whatever_was_printed_is_read_as_it_was(
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
    file.write_text(printed(Effective(config, {})))

    assert read_config(RuntimeApiConfig, file, {}, "NONE_").config == config


def test_it_tells_which_values_come_from_the_environment() -> None:
    config = evolve(ControllerManagerConfig(), workers=3)

    text = printed(Effective(config, {"workers": "X_WORKERS", "namespaces.stock": "X_NAMESPACES_STOCK"}))

    assert "\nworkers: 3  # from X_WORKERS\n" in text
    assert "\n  stock:  # from X_NAMESPACES_STOCK\n  - runtime-stock\n" in text
    assert text.count("#") == 2
    assert yaml.safe_load(text)["workers"] == 3
