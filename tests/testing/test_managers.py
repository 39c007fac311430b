"""A manager that runs for the length of a block."""

import asyncio
import json
from pathlib import Path

import pytest
from attrs import field, frozen

from gpuruntime.control import Manager, ManagerOptions
from gpuruntime.kube import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.cluster.access import kubeconfig_document
from gpuruntime.testing.managers import running


class ProgramError(Exception):
    pass


@pytest.fixture
async def manager(tmp_path: Path) -> Manager:
    """A manager that sends no requests."""
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(kubeconfig_document("https://127.0.0.1:1", b"", {"token": "t"})))
    return Manager(from_kubeconfig(path), ManagerOptions("tested"))


@frozen
class Work:
    """Runs until it is cancelled."""

    begun: asyncio.Event = field(factory=asyncio.Event)
    ended: asyncio.Event = field(factory=asyncio.Event)

    async def run(self) -> None:
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.ended.set()


async def test_a_manager_runs_in_the_block_and_is_stopped_gracefully_after_it(
    kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    manager = Manager(from_kubeconfig(kube_cluster.kubeconfig), ManagerOptions("tested"))
    pages = manager.cache.informer(ConfigMap, namespaces=[kube_namespace])
    work = Work()
    manager.add(work.run, "work", group="always")

    async with running(manager) as same:
        await pages.store_synced()
        await work.begun.wait()
        is_at_work = not work.ended.is_set()

    assert same is manager
    assert is_at_work
    assert work.ended.is_set()
    assert manager.is_stopping


async def test_a_failure_of_the_manager_ends_the_block_and_is_raised(manager: Manager) -> None:
    async def fail() -> None:
        raise ProgramError("broken")

    manager.add(fail, "failing", group="always")

    with pytest.raises(ProgramError, match="broken"):
        async with running(manager):
            await asyncio.get_running_loop().create_future()


async def test_a_failure_of_the_block_ends_the_manager_and_is_raised(manager: Manager) -> None:
    work = Work()
    manager.add(work.run, "work", group="always")

    async def story() -> None:
        async with running(manager):
            await work.begun.wait()
            raise ProgramError("wrong")

    with pytest.raises(ProgramError, match="wrong"):
        await story()

    assert work.ended.is_set()


async def test_a_timeout_of_the_block_names_the_limit(manager: Manager) -> None:
    with pytest.raises(TimeoutError, match=r"0\.05 s.*`within`"):
        async with running(manager, within=0.05):
            await asyncio.get_running_loop().create_future()


async def test_a_timeout_error_inside_the_block_is_not_replaced(manager: Manager) -> None:
    with pytest.raises(TimeoutError, match="theirs"):
        async with running(manager):
            raise TimeoutError("theirs")
