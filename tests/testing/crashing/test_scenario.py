"""The options of scenarios."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from gpuruntime.control import Manager, ManagerOptions, Result, RunInfo, Store, Watch, enqueue_object
from gpuruntime.kube import Client
from gpuruntime.kube.builtin.core import ConfigMap, Namespace, Secret
from gpuruntime.meta import FrozenDict, ObjectKey, ObjectMeta
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.crashing import Launch, Scenario, Stage, UnusableScenarioError, explore, only

RIGHTS = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "delete"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
)


@frozen
class Mover:
    """Moves ConfigMaps from one namespace to another."""

    maps: Store[ConfigMap]
    client: Client
    target: str

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        source = self.maps.get(key)
        if source is None or key.namespace == self.target or "parcel" not in source.data:
            return Result.done()
        if self.maps.get(ObjectKey(self.target, key.name)) is None:
            await self.client.create(ConfigMap(ObjectMeta(name=key.name, namespace=self.target), data=source.data))
        await self.client.delete(ConfigMap, key.name, key.namespace, uid=source.metadata.uid)
        return Result.done()


async def mover(launch: Launch) -> None:
    manager = Manager(launch.credentials, ManagerOptions("mover", grace=0.5))
    maps = manager.cache.informer(ConfigMap, namespaces=[launch.namespace("here"), launch.namespace("there")])
    reconciler = Mover(maps.store, manager.client, launch.namespace("there"))
    manager.add_controller("mover", reconciler, [Watch(maps, enqueue_object())])
    await manager.run()


async def put_parcel(stage: Stage, name: str) -> None:
    data = FrozenDict({"parcel": stage.namespace("here")})
    await stage.client.create(ConfigMap(ObjectMeta(name=name, namespace=stage.namespace("here")), data=data))


async def one(stage: Stage) -> None:
    await put_parcel(stage, "one")


async def two(stage: Stage) -> None:
    await put_parcel(stage, "two")


async def nothing(_stage: Stage) -> None:
    pass


async def parcels(stage: Stage) -> Mapping[str, Any]:
    found = await stage.client.list(ConfigMap, stage.namespace("there"))
    return {found.metadata.name: "parcel" in found.data for found in found.items}


async def test_a_scenario_may_have_several_namespaces_a_setup_and_a_custom_state(
    kube_cluster: ClusterAccess, tmp_path: Path
) -> None:
    scenario = Scenario(
        name="moving",
        kinds=(ConfigMap,),
        prepare=one,
        act=two,
        settled=lambda world: len([found for found in world.list(ConfigMap, "there") if found.data.get("parcel")]) == 2,
        observe=parcels,
        namespaces=("here", "there"),
        idle_seconds=0.5,
    )
    plans = only("crash-after-write:1", "crash-after-write:3:unanswered", "delay-watch:*:1")

    report = await explore(
        scenario, mover, kube_cluster, tmp_path, plans=plans, rules=RIGHTS, max_parallel=3, environ={}
    )

    report.check()
    assert report.not_triggered == ()
    assert {str(write) for write in report.trace.writes} == {
        f"{method} configmaps {name}" for method in ("POST", "DELETE") for name in ("one", "two")
    }


async def test_the_namespaces_of_a_run_are_deleted_and_no_token_stays_in_a_file(
    kube_cluster: ClusterAccess, tmp_path: Path
) -> None:
    names: list[str] = []

    async def remember(stage: Stage) -> None:
        names.append(stage.namespace())

    scenario = Scenario(
        name="empty", kinds=(Secret,), act=remember, settled=lambda _: True, idle_seconds=0.1, timeout=20.0
    )

    with pytest.raises(UnusableScenarioError):
        await explore(scenario, watch_only, kube_cluster, tmp_path, environ={})

    deleted = kube_cluster.admin().get("/api/v1/namespaces")["items"]
    phases = [item["status"]["phase"] for item in deleted if item["metadata"]["name"] in names]
    assert names
    assert set(phases) <= {"Terminating"}
    assert users_in(tmp_path) == [{}]


async def watch_only(launch: Launch) -> None:
    manager = Manager(launch.credentials, ManagerOptions("watcher", grace=0.5))
    manager.cache.informer(Secret, namespaces=[launch.namespace()])
    await manager.run()


def users_in(directory: Path) -> list[Any]:
    documents = [json.loads(file.read_text()) for file in directory.glob("run-*/*.kubeconfig")]
    return [user["user"] for document in documents for user in document["users"]]


def test_cluster_scoped_kinds_are_rejected() -> None:
    with pytest.raises(ValueError, match="v1 Namespace"):
        Scenario(name="x", kinds=(Namespace,), act=nothing, settled=lambda _: True)
