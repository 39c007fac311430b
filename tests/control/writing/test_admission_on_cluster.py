"""Additions of admission belong to the server: they stay, cause no write, and do not hide other edits."""

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
from attrs import evolve

from gpuruntime.control.writing.writer import Writer
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.client import Client, connect
from gpuruntime.kube.errors import ForbiddenError
from gpuruntime.meta.codec import encode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.plugin import AccountFactory
from tests.control.rich_children import child
from tests.control.writing_scenes import MANAGER, ensure_as_a_controller_does, make_owner, open_client

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
INJECTED = "injected.example.org/by-policy"


@pytest.fixture
async def client(kube_cluster: ClusterAccess) -> AsyncIterator[Client]:
    async with open_client(kube_cluster) as opened:
        yield opened


@pytest.fixture
def policy(kube_cluster: ClusterAccess, kube_namespace: str) -> Iterator[None]:
    """A policy that puts an annotation into the pod template of every Deployment of the namespace."""
    admin, name = kube_cluster.admin(), f"inject-{uuid.uuid4().hex[:8]}"
    path = f'"/spec/template/metadata/annotations/" + jsonpatch.escapeKey("{INJECTED}")'
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": f'[JSONPatch{{op: "add", path: {path}, value: "x"}}]'},
            }
        ],
    }
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kube_namespace}}}
    binding = {"policyName": name, "matchResources": here}
    admin.create(POLICIES, {"metadata": {"name": name}, "spec": spec})
    admin.create(BINDINGS, {"metadata": {"name": name}, "spec": binding})
    yield
    admin.delete(f"{BINDINGS}/{name}")
    admin.delete(f"{POLICIES}/{name}")


@pytest.mark.usefixtures("policy")
async def test_additions_of_admission_stay_and_cause_no_write_even_after_a_restart(
    client: Client, kube_cluster: ClusterAccess, kube_namespace: str, kube_audit: AuditLog
) -> None:
    admin, owner = kube_cluster.admin(), await make_owner(client, kube_namespace)
    number = 0
    while True:
        # A policy takes effect a moment after its creation; there is no event to await.
        number += 1
        desired = child("deployment", kube_namespace, f"d-{number}")
        created = (await Writer(client, field_manager=MANAGER).ensure(desired, owner, live=None)).object
        if INJECTED in encode(created)["spec"]["template"]["metadata"]["annotations"]:
            break
    place = Deployment.KIND.path(kube_namespace, f"d-{number}")

    with kube_audit.recording() as seen:
        started = await ensure_as_a_controller_does(client, desired, owner)
    admin.merge(place, {"spec": {"template": {"spec": {"hostNetwork": True}}}})
    mended = await ensure_as_a_controller_does(client, desired, owner)

    assert started.result == "unchanged"
    assert [write for write in seen.writes(namespace=kube_namespace) if "tests" in write.user_agent] == []
    assert mended.result == "updated"
    assert encode(mended.object)["spec"] == encode(created)["spec"]


async def test_an_object_that_has_all_desired_fields_is_unchanged_if_the_server_refuses_the_dry_run(
    client: Client, kube_cluster: ClusterAccess, kube_namespace: str, kube_account: AccountFactory
) -> None:
    owner, desired = await make_owner(client, kube_namespace), child("deployment", kube_namespace)
    await Writer(client, field_manager=MANAGER).ensure(desired, owner, live=None)
    reader = kube_account(rules=[{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}])
    async with connect(from_kubeconfig(reader.kubeconfig), field_manager="tests", user_agent="reader") as forbidden:
        same = await ensure_as_a_controller_does(forbidden, desired, owner)
        kube_cluster.admin().merge(Deployment.KIND.path(kube_namespace, "deployment"), {"spec": {"paused": True}})
        wanted = evolve(desired, metadata=evolve(desired.metadata, labels=FrozenDict({"app": "other"})))

        with pytest.raises(ForbiddenError):
            await ensure_as_a_controller_does(forbidden, wanted, owner)

    assert same.result == "unchanged"
