"""The access gateway inside the process `manager`."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from gpuruntime.control import HttpAddress
from gpuruntime.gateway.proxy.streams import StreamLimits
from gpuruntime.gateway.signing.keys import SigningKey
from gpuruntime.processes.config.access_sections import ManagerGateway, StreamSettings
from gpuruntime.processes.manager import ManagerConfig, gateway_config, manager_gateway


async def test_a_manager_has_no_access_gateway_unless_it_is_configured() -> None:
    assert manager_gateway(ManagerConfig(), CollectorRegistry()) is None


def test_the_access_gateway_of_a_manager_has_limits_of_its_own() -> None:
    settings = ManagerGateway(HttpAddress(), streams=StreamSettings(per_caller=3, idle_timeout=60.0))

    own = gateway_config(ManagerConfig(access_gateway=settings))

    assert own is not None
    assert own.streams.limits == StreamLimits(per_caller=3, idle_seconds=60.0)


async def test_the_access_gateway_of_a_manager_has_an_account_of_its_own_and_exports_its_streams(
    tmp_path: Path,
) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(SigningKey.generate().pem)
    settings = ManagerGateway(HttpAddress(), kubeconfig=tmp_path / "own.kubeconfig", signing_key_file=key)
    registry = CollectorRegistry()

    gateway = manager_gateway(ManagerConfig(access_gateway=settings), registry)

    assert gateway is not None
    assert {permission.resource for permission in gateway.permissions} == {"gpustorages", "tokenreviews"}
    assert gateway.manager.options.signals is False
    assert registry.get_sample_value("gpuruntime_access_streams") == 0
