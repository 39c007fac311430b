"""The access gateway inside the process `manager`."""

from pathlib import Path

from gpuruntime.control import HttpAddress
from gpuruntime.gateway.signing.keys import SigningKey
from gpuruntime.processes.config.access_sections import ManagerGateway
from gpuruntime.processes.manager import ManagerConfig, manager_gateway


async def test_a_manager_has_no_access_gateway_unless_it_is_configured() -> None:
    assert manager_gateway(ManagerConfig()) is None


async def test_the_access_gateway_of_a_manager_has_credentials_and_permissions_of_its_own(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(SigningKey.generate().pem)
    settings = ManagerGateway(HttpAddress(), kubeconfig=tmp_path / "own.kubeconfig", signing_key_file=key)

    gateway = manager_gateway(ManagerConfig(access_gateway=settings))

    assert gateway is not None
    assert {permission.resource for permission in gateway.permissions} == {"gpustorages", "tokenreviews"}
    assert gateway.manager.options.signals is False
