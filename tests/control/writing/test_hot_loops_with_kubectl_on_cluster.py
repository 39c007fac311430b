"""kubectl reverts writes of a controller: which field manager is reported, and for which field."""

import asyncio
from typing import Any

import pytest

from gpuruntime.control.writing.hot_loops import HotLoopError, HotLoopGuard, HotLoopSettings
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.client import Client
from gpuruntime.kube.forms import typed
from gpuruntime.meta import FrozenDict, ObjectMeta, TypedObject
from gpuruntime.testing import ClusterAccess
from tests.control.scenes import open_transport
from tests.control.writing_scenes import MANAGER, ensure_as_a_controller_does, make_owner

# The field manager of the process, besides that of its Writer.
PROCESS = "widget-operator"
PAGE = ("configmap", "page")
WEB = ("deployment", "web")
THEIRS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "page"}, "data": {"text": "theirs"}}
EDIT = "sed -i 's/: ours/: theirs/'"
EDIT_AWAY = "sed -i '/text: ours/d'"
MERGE = '{"data": {"text": "theirs"}}'
JSON_PATCH = '[{"op": "replace", "path": "/data/text", "value": "theirs"}]'


def desired(kind: str, namespace: str) -> TypedObject:
    metadata = ObjectMeta(name="page", namespace=namespace, labels=FrozenDict(team="ours"))
    if kind == "configmap":
        return ConfigMap(metadata, data=FrozenDict(text="ours", other="ours too"))
    labels = {"app": "web"}
    body: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [
                        {"name": "web", "image": "example.org/ours:1"},
                        {"name": "side", "image": "example.org/ours:1"},
                    ]
                },
            },
        },
    }
    return typed(Deployment).decode(body)


async def write(client: Client, child: TypedObject, owner: ConfigMap) -> str:
    """The message of a write that was held back; empty if it was made."""
    try:
        await ensure_as_a_controller_does(client, child, owner, adopt=True)
    except HotLoopError as error:
        return str(error)
    return ""


async def hot_loop(
    access: ClusterAccess, namespace: str, kind: str, revert: tuple[str, ...], given: str | None = None
) -> str:
    """The message of the guard for the second write that kubectl reverts."""
    async with open_transport(access) as transport:
        guard = HotLoopGuard(transport, PROCESS, HotLoopSettings(writes=1))
        client = Client(guard, field_manager=PROCESS)
        owner, child = await make_owner(client, namespace), desired(kind, namespace)
        await client.create(child, field_manager=MANAGER)

        await asyncio.to_thread(access.kubectl, "-n", namespace, *revert, input_text=given)
        assert not await write(client, child, owner)
        await asyncio.to_thread(access.kubectl, "-n", namespace, *revert, input_text=given)
        return await write(client, child, owner)


@pytest.mark.parametrize(
    ("object_", "revert", "named"),
    [
        (PAGE, ("edit",), "data.text (set by kubectl-edit)"),
        (PAGE, ("patch", "--type=merge", "-p", MERGE), "data.text (set by kubectl-patch)"),
        (PAGE, ("patch", "--type=json", "-p", JSON_PATCH), "data.text (set by kubectl-patch)"),
        (PAGE, ("patch", "-p", MERGE, "--field-manager=gitops"), "data.text (set by gitops)"),
        (PAGE, ("label", "--overwrite", "team=theirs"), "metadata.labels.team (set by kubectl-label)"),
        (WEB, ("scale", "--replicas=1"), "spec.replicas (set by kubectl)"),
        (
            WEB,
            ("set", "image", "side=example.org/theirs:1"),
            "spec.template.spec.containers[name=side].image (set by kubectl-set)",
        ),
        (
            PAGE,
            ("patch", "--type=merge", "-p", '{"data": {"text": null}, "metadata": {"labels": {"x": "y"}}}'),
            "data.text (removed, most likely by kubectl-patch, the last writer of the object)",
        ),
        (
            PAGE,
            ("patch", "-p", MERGE, f"--field-manager={MANAGER}"),
            f"data.text (set under our own field manager {MANAGER}: by an admission webhook that changes our write, or",
        ),
        (
            PAGE,
            ("patch", "-p", MERGE, f"--field-manager={PROCESS}"),
            f"data.text (set under {PROCESS}, another field manager of this program: look for a second controller",
        ),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else None,
)
async def test_the_other_field_manager_is_reported_and_never_our_own(
    kube_cluster: ClusterAccess,
    kube_namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    object_: tuple[str, str],
    revert: tuple[str, ...],
    named: str,
) -> None:
    monkeypatch.setenv("KUBE_EDITOR", EDIT)
    place = 2 if revert[0] == "set" else 1
    command = (*revert[:place], *object_, *revert[place:])

    said = await hot_loop(kube_cluster, kube_namespace, object_[0], command)

    assert named in said
    assert f"set by {MANAGER}" not in said
    assert f"set by {PROCESS}" not in said


async def test_a_field_removed_in_an_editor_is_not_reported_as_set_by_us(
    kube_cluster: ClusterAccess, kube_namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBE_EDITOR", EDIT_AWAY)

    said = await hot_loop(kube_cluster, kube_namespace, "configmap", ("edit", *PAGE))

    assert "data.text (set by unknown)" in said


@pytest.mark.parametrize(
    ("apply", "name"),
    [
        (("apply",), "kubectl-client-side-apply"),
        (("apply", "--server-side", "--force-conflicts", "--field-manager=gitops"), "gitops"),
        (("replace",), "kubectl-replace"),
    ],
    ids=["apply", "server-side", "replace"],
)
async def test_the_field_manager_of_an_apply_is_reported(
    kube_cluster: ClusterAccess, kube_namespace: str, apply: tuple[str, ...], name: str
) -> None:
    said = await hot_loop(kube_cluster, kube_namespace, "configmap", (*apply, "-f", "-"), str(THEIRS))

    assert f"data.text (set by {name})" in said
    assert f"by {MANAGER}" not in said
